/**
 * One session of the TypeScript SDK's client, told as one JSON document on stdout.
 *
 *   node client.mjs --transport stdio|http|sse --era legacy|modern|auto --target COMMAND-AS-JSON-OR-URL
 *                   [--calls '[{"name": "add", "arguments": {"a": 1, "b": 2}}]']
 *                   [--await-list-changed] [--timeout MILLISECONDS]
 *
 * It connects, lists every tool, makes the calls one after the other and prints
 * {protocolVersion, era, serverInfo, capabilities, tools, results}; each result carries the call's `progress`
 * and either `result` or `error: {code, message}`. With --await-list-changed it prints the line "listening" on
 * stderr once a notice can reach it, waits for one after the calls, lists again and adds `toolsAfter`.
 * The packages are those of the folder that MCP_BRIDGE_NODE_MODULES names. Exit code 0, or 1 with the error
 * on stderr.
 */

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

// The packages are installed outside the tree, where a plain `import` from this file does not look.
const require = createRequire(join(process.env.MCP_BRIDGE_NODE_MODULES ?? 'node_modules', 'here.cjs'));
const { Client, SSEClientTransport, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');

const MODERN = '2026-07-28';
const MODES = { legacy: 'legacy', auto: 'auto', modern: { pin: MODERN } };
const LIST_CHANGED = 'notifications/tools/list_changed';

/** The command line as an object; throws on what it does not know. */
function options() {
    const { values } = parseArgs({
        options: {
            transport: { type: 'string' },
            era: { type: 'string', default: 'auto' },
            target: { type: 'string' },
            calls: { type: 'string', default: '[]' },
            'await-list-changed': { type: 'boolean', default: false },
            timeout: { type: 'string', default: '30000' }
        }
    });
    if (!(values.era in MODES)) throw new Error(`--era: one of ${Object.keys(MODES).join(', ')}`);
    if (!values.target) throw new Error('--target: missing');
    return { ...values, calls: JSON.parse(values.calls), timeout: Number(values.timeout) };
}

/**
 * A fetch that tells when the standalone GET stream was answered. The SDK opens that stream after the
 * handshake without waiting for it, and what a server sends before it is open is lost.
 */
function watchedFetch() {
    const opened = Promise.withResolvers();
    const watched = async (url, init) => {
        const response = await fetch(url, init);
        if ((init?.method ?? 'GET') === 'GET') opened.resolve(response.status);
        return response;
    };
    return { fetch: watched, opened: opened.promise };
}

/** The transport asked for, and a promise that is done when unasked notices of the handshake era can come. */
function connection({ transport, target }) {
    if (transport === 'stdio') {
        const [command, ...args] = JSON.parse(target);
        return { transport: new StdioClientTransport({ command, args, env: process.env }), opened: null };
    }
    if (transport === 'sse') return { transport: new SSEClientTransport(new URL(target)), opened: null };
    if (transport === 'http') {
        const { fetch, opened } = watchedFetch();
        return { transport: new StreamableHTTPClientTransport(new URL(target), { fetch }), opened };
    }
    throw new Error('--transport: one of stdio, http, sse');
}

/** `promise`, or an error that says what did not come in time. */
function within(milliseconds, promise, what) {
    const late = Promise.withResolvers();
    const timer = setTimeout(() => late.reject(new Error(`${what}: nothing within ${milliseconds} ms`)), milliseconds);
    return Promise.race([promise, late.promise]).finally(() => clearTimeout(timer));
}

/** Start to listen for a changed list in the way of the connection's era; the promise returned is the notice. */
async function listenForChange(client, opened, timeout) {
    const notice = Promise.withResolvers();
    client.setNotificationHandler(LIST_CHANGED, () => notice.resolve());
    if (client.getProtocolEra() === 'modern') {
        const subscription = await client.listen({ toolsListChanged: true }, { timeout });
        if (!subscription.honoredFilter.toolsListChanged) throw new Error('the server does not honour toolsListChanged');
    } else if (opened) {
        await within(timeout, opened, 'the standalone GET stream');
    }
    process.stderr.write('listening\n');
    return { arrived: notice.promise };
}

/**
 * Collect progress notices in place of the SDK's `onprogress`, which forgets a call as soon as its result is
 * read and so loses the notices that came in the same chunk. Calls are made one by one: the steps are the
 * current call's.
 */
function collectProgress(client) {
    const steps = [];
    client.setNotificationHandler('notifications/progress', ({ params: { progressToken, ...step } }) => {
        steps.push(step);
    });
    return steps;
}

/** Make one call; a JSON-RPC error is an outcome, not an exception. */
async function call(client, { name, arguments: args }, timeout) {
    // The presence of `onprogress` makes the SDK ask for progress.
    const asked = { timeout, onprogress: () => {} };
    try {
        return { name, result: await client.callTool({ name, arguments: args }, asked) };
    } catch (error) {
        return { name, error: { code: error.code ?? error.name, message: error.message } };
    }
}

/** The whole session on a connected client. */
async function converse(client, opened, { calls, timeout, 'await-list-changed': awaitChange }) {
    const change = awaitChange ? await listenForChange(client, opened, timeout) : null;
    const { tools } = await client.listTools(undefined, { timeout });
    const steps = collectProgress(client);
    const results = [];
    for (const wanted of calls) {
        const outcome = await call(client, wanted, timeout);
        results.push({ ...outcome, progress: steps.splice(0) });
    }
    const report = {
        protocolVersion: client.getNegotiatedProtocolVersion(),
        era: client.getProtocolEra(),
        serverInfo: client.getServerVersion(),
        capabilities: client.getServerCapabilities(),
        tools,
        results
    };
    if (change) {
        await within(timeout, change.arrived, LIST_CHANGED);
        report.toolsAfter = (await client.listTools(undefined, { timeout, cacheMode: 'refresh' })).tools;
    }
    return report;
}

async function main() {
    const asked = options();
    const { transport, opened } = connection(asked);
    const client = new Client(
        { name: 'mcp-bridge-tests', version: '1.0.0' },
        { versionNegotiation: { mode: MODES[asked.era] } }
    );
    try {
        await client.connect(transport, { timeout: asked.timeout });
        const report = await converse(client, opened, asked);
        process.stdout.write(`${JSON.stringify(report)}\n`);
    } finally {
        await client.close();
    }
}

main().catch(error => {
    process.stderr.write(`${error.stack ?? error}\n`);
    process.exitCode = 1;
});
