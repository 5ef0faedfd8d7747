/**
 * One session of the TypeScript SDK's client, which uses everything that the twin servers offer.
 *
 *   node use_everything.mjs legacy|auto|modern COMMAND
 *
 * The packages are those of the folder that MCP_BRIDGE_NODE_MODULES names.
 */

import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.env.MCP_BRIDGE_NODE_MODULES, 'here.cjs'));
const { Client } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');

const [era, command] = process.argv.slice(2);
const MODES = { legacy: 'legacy', auto: 'auto', modern: { pin: '2026-07-28' } };
const TOOLS = [
    'count', 'blocks', 'refuse', 'crash', 'ask', 'sample', 'roots', 'open_page', 'need_input', 'need_sampling'
];

/** A client that answers every question. */
function makeClient() {
    const client = new Client(
        { name: 'typescript-client', version: '2.4.0' },
        {
            capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: { listChanged: true } },
            versionNegotiation: { mode: MODES[era] }
        }
    );
    client.setRequestHandler('elicitation/create', ({ params }) =>
        params.mode === 'url' ? { action: 'accept' } : { action: 'accept', content: { name: 'Ada' } }
    );
    client.setRequestHandler('sampling/createMessage', () => ({
        role: 'assistant', content: { type: 'text', text: 'Hello' }, model: 'm'
    }));
    client.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///a', name: 'a' }] }));
    return client;
}

/** Ignore the error of a request: some are meant to fail. */
const attempt = promise => promise.catch(error => process.stderr.write(`${error}\n`));

async function list(client) {
    await client.listTools();
    await client.listResources();
    await client.listResourceTemplates();
    await client.listPrompts();
}

async function read(client) {
    for (const uri of ['test://text', 'test://bytes', 'test://notes/ann', 'test://files/a/b', 'test://none']) {
        await attempt(client.readResource({ uri }));
    }
    await client.getPrompt({ name: 'greeting', arguments: { who: 'Ada' } });
    await attempt(client.getPrompt({ name: 'none' }));
    await client.complete({
        ref: { type: 'ref/prompt', name: 'greeting' },
        argument: { name: 'who', value: 'a' },
        context: { arguments: { tone: 'kind' } }
    });
    const ref = { type: 'ref/resource', uri: 'test://notes/{name}' };
    await client.complete({ ref, argument: { name: 'name', value: 'an' } });
}

async function callTools(client) {
    await client.callTool({ name: 'echo', arguments: { text: 'hi' }, _meta: { 'com.example/a': 1 } });
    await client.callTool({ name: 'add', arguments: { a: 1, b: 2.5 } });
    await attempt(client.callTool({ name: 'add', arguments: { a: 'one' } }));
    await attempt(client.callTool({ name: 'none', arguments: {} }));
    for (const name of TOOLS) await attempt(client.callTool({ name, arguments: {} }));
    await client.callTool({ name: 'report', arguments: {} }, { onprogress: () => {} });
}

/** Change the offer while the client is subscribed to it, and wait until it has been notified. */
async function subscribe(client) {
    const changed = Promise.withResolvers();
    const updated = Promise.withResolvers();
    client.setNotificationHandler('notifications/tools/list_changed', () => changed.resolve());
    client.setNotificationHandler('notifications/resources/updated', () => updated.resolve());
    const isModern = client.getProtocolEra() === 'modern';
    const filter = { toolsListChanged: true, resourceSubscriptions: ['test://text'] };
    const subscription = isModern ? await client.listen(filter) : await client.subscribeResource({ uri: 'test://text' });
    await client.callTool({ name: 'touch', arguments: {} });
    await client.callTool({ name: 'change_tools', arguments: {} });
    await Promise.all([changed.promise, updated.promise]);
    await (isModern ? subscription.close() : client.unsubscribeResource({ uri: 'test://text' }));
}

/** What only handshake clients can do. */
async function useSession(client) {
    await client.ping();
    await client.setLoggingLevel('warning');
    await client.callTool({ name: 'report', arguments: {} }, { onprogress: () => {} });
    await client.sendRootsListChanged();
}

async function cancel(client) {
    const controller = new AbortController();
    const call = attempt(client.callTool({ name: 'wait', arguments: {} }, { signal: controller.signal }));
    await client.callTool({ name: 'echo', arguments: { text: 'meanwhile' } });
    controller.abort('no more');
    await call;
}

const client = makeClient();
await client.connect(new StdioClientTransport({ command, env: process.env }));
await list(client);
await read(client);
await callTools(client);
await subscribe(client);
if (client.getProtocolEra() !== 'modern') await useSession(client);
await cancel(client);
await client.close();
