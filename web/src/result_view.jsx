/** The result of a call: text, JSON, images, audio, links and embedded resources. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { parseJson } from "./numbers.js";
import { Code, CopyButton } from "./parts.jsx";
import { formatSize } from "./format.js";

export function ResultView({ result }) {
  const [isRaw, setRaw] = useState(false);
  const blocks = result.content ?? [];
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
          {!blocks.length && structured === undefined && <p class="muted">The result is empty.</p>}
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

function Block({ block }) {
  if (block.type === "text") return <Text text={block.text} />;
  if (block.type === "image" || block.type === "audio") return <Media data={block.data} type={block.mimeType} />;
  if (block.type === "resource_link") return <ResourceLink link={block} />;
  if (block.type === "resource") return <Resource resource={block.resource} />;
  return <Code value={block} label={`Content of type ${block.type}`} />;
}

function Text({ text }) {
  const value = useMemo(() => readJson(text), [text]);
  return value === undefined ? <Code text={text} label="Text" /> : <Code value={value} label="Text in JSON" />;
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

/** A link to a web page; other URIs are only shown, because a tool chose them. */
export function SafeLink({ uri, children }) {
  return /^https?:\/\//i.test(uri) ? (
    <a href={uri} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  ) : (
    <span>{children}</span>
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
