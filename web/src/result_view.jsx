/** The result of a call: text, JSON, images, audio, links and resources, and the messages of a prompt. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { parseJson } from "./numbers.js";
import { isMarkdown, Markdown } from "./markdown.jsx";
import { Code, CopyButton } from "./parts.jsx";
import { SafeLink } from "./safe_link.jsx";
import { formatSize } from "./format.js";

export function ResultView({ result }) {
  const [isRaw, setRaw] = useState(false);
  const resources = (result.contents ?? []).map((resource) => ({ type: "resource", resource }));
  const blocks = result.content ?? resources;
  const messages = result.messages ?? [];
  const structured = result.structuredContent;
  const hasCopy = structured !== undefined && blocks.length === 1 && isSameJson(blocks[0].text, structured);
  return (
    <div class="result">
      <div class="row end">
        <label class="check small">
          <input type="checkbox" checked={isRaw} onChange={(event) => setRaw(event.target.checked)} /> Show as MCP
        </label>
        <CopyButton text={JSON.stringify(result, null, 2)} label="Copy result" />
      </div>
      {isRaw ? (
        <Code value={result} label="Result as MCP" />
      ) : (
        <>
          {!hasCopy && blocks.map((block, index) => <Block key={index} block={block} />)}
          {structured !== undefined && <Code value={structured} label="Structured content" />}
          {result.messages && result.description && <p class="muted">{result.description}</p>}
          {messages.map(({ role, content }, index) => (
            <section key={index} class="message" aria-label={`Message of the ${role}`}>
              <p class="muted small">{role}</p>
              <Block block={content} />
            </section>
          ))}
          {!blocks.length && !messages.length && structured === undefined && (
            <p class="muted">The result is empty.</p>
          )}
        </>
      )}
    </div>
  );
}

/** Whether the text is only the structured content again, which servers add for clients that read only text. */
function isSameJson(text, value) {
  try {
    return JSON.stringify(parseJson(text)) === JSON.stringify(value);
  } catch {
    return false;
  }
}

export function Block({ block }) {
  if (block.type === "text") return <Text text={block.text} />;
  if (block.type === "image" || block.type === "audio") return <Media data={block.data} type={block.mimeType} />;
  if (block.type === "resource_link") return <ResourceLink link={block} />;
  if (block.type === "resource") return <Resource resource={block.resource} />;
  return <Code value={block} label={`Content of type ${block.type}`} />;
}

function Text({ text }) {
  const value = useMemo(() => readJson(text), [text]);
  if (value !== undefined) return <Code value={value} label="Text in JSON" />;
  if (!isMarkdown(text)) return <Code text={text} label="Text" />;
  return (
    <div class="result-text" tabindex="0" role="region" aria-label="Text">
      <Markdown text={text} />
    </div>
  );
}

/** Return the object or array that a text contains, undefined for any other text. */
function readJson(text) {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

function Media({ data, type = "" }) {
  const isPlayed = /^(audio|image)\//.test(type);
  const url = useObjectUrl(data, isPlayed ? type : "application/octet-stream"); // no browser opens it as a page
  if (!url) return <p class="problem">This content is not valid Base64.</p>;
  if (type.startsWith("audio/")) return <audio class="media" controls src={url} aria-label={`Audio, ${type}`} />;
  if (type.startsWith("image/")) return <img class="media" src={url} alt={`Image, ${type}`} />;
  return (
    <a href={url} download="result">
      Download ({type || "unknown type"}, {formatSize(Math.floor(data.length * 0.75))})
    </a>
  );
}

/** Return the URL of a blob with this content, which is released when it is no longer shown. */
function useObjectUrl(data, type) {
  const url = useMemo(() => {
    try {
      const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
      return URL.createObjectURL(new Blob([bytes], { type }));
    } catch {
      return null;
    }
  }, [data, type]);
  useEffect(() => () => url && URL.revokeObjectURL(url), [url]);
  return url;
}

function ResourceLink({ link }) {
  return (
    <p class="block">
      <SafeLink uri={link.uri}>{link.title ?? link.name ?? link.uri}</SafeLink>
      <code class="muted"> {link.uri}</code>
      {link.description && (
        <>
          <br />
          {link.description}
        </>
      )}
    </p>
  );
}

function Resource({ resource }) {
  return (
    <div class="block">
      <code class="muted">{resource.uri}</code>
      {resource.text !== undefined ? (
        <Text text={resource.text} />
      ) : (
        <Media data={resource.blob ?? ""} type={resource.mimeType ?? ""} />
      )}
    </div>
  );
}
