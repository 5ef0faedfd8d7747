/**
 * A small subset of Markdown as elements: headings, paragraphs, lists, quotes, tables, fenced code, and in them code,
 * bold, italic and links to web pages. HTML is shown as the text that it is, and images are links.
 */
import { escapeInvisible } from "./format.js";
import { SafeLink } from "./safe_link.jsx";

const MAX_TEXT = 30_000; // characters; longer texts stay as they are
const MAX_INLINE = 8_000; // characters of one paragraph, because the time to read it can grow with their square
const MAX_CHECKED = 5_000;
const FENCE = /^ {0,3}(```+|~~~+)(.*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const ITEM = /^ {0,3}([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const RULE = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const TABLE_LINE = /^ {0,3}\|.*\|\s*$/;
const TABLE_RULE = /^ {0,3}\|(\s*:?-+:?\s*\|)+\s*$/;
const INLINE =
  /(`{1,3})([^`\n]+)\1(?!`)|(\*\*|__)(?=\S)(.+?)(?<=\S)\3|(?<![\w*])([*_])(?=[^\s*_])(.+?)(?<=[^\s*_])\5(?![\w*])|!?\[([^\]\n]+)\]\(([^\s()]+)(?:\s+"[^"\n]*")?\)|(https?:\/\/[^\s<>()]+[^\s<>().,;:!?'"])|\\([!-/:-@[-`{-~])/g;

/** Whether a text uses this subset, so that it is better shown as such. */
export function isMarkdown(text) {
  if (text.length > MAX_TEXT) return false;
  const begin = text.slice(0, MAX_CHECKED);
  const lines = begin.split("\n");
  const marks = lines.filter((line) => FENCE.test(line) || HEADING.test(line) || TABLE_RULE.test(line)).length;
  const items = lines.filter((line) => ITEM.test(line)).length;
  return marks > 0 || items > 1 || /\*\*\S.*?\S\*\*|\[[^\]\n]+\]\(https?:\/\/[^\s()]+\)/.test(begin);
}

export function Markdown({ text }) {
  const shown = escapeInvisible(text);
  if (shown.length > MAX_TEXT) return <p class="prose">{shown}</p>;
  return <div class="markdown">{renderBlocks(shown.split(/\r?\n/))}</div>;
}

function renderBlocks(lines, depth = 0) {
  const blocks = [];
  let index = 0;
  const take = (matches) => {
    const start = index;
    while (index < lines.length && matches(lines[index], index - start)) index += 1;
    return lines.slice(start, index);
  };
  while (index < lines.length) {
    const line = lines[index];
    const fence = FENCE.exec(line);
    const heading = HEADING.exec(line);
    if (!line.trim()) index += 1;
    else if (fence) {
      index += 1;
      const code = take((next) => !next.trim().startsWith(fence[1]));
      index += 1;
      blocks.push(<pre class="code">{code.join("\n")}</pre>);
    } else if (heading) {
      index += 1;
      // The page has h1 and h2 itself.
      blocks.push(<p class={`heading level-${heading[1].length}`}>{renderInline(heading[2])}</p>);
    } else if (RULE.test(line)) {
      index += 1;
      blocks.push(<hr />);
    } else if (TABLE_LINE.test(line) && TABLE_RULE.test(lines[index + 1] ?? "")) {
      blocks.push(renderTable(take((next) => TABLE_LINE.test(next))));
    } else if (QUOTE.test(line) && depth < 4) {
      const quoted = take((next) => QUOTE.test(next)).map((next) => QUOTE.exec(next)[1]);
      blocks.push(<blockquote>{renderBlocks(quoted, depth + 1)}</blockquote>);
    } else if (ITEM.test(line) && depth < 4) {
      blocks.push(renderList(take((next, offset) => offset === 0 || ITEM.test(next) || /^\s+\S/.test(next)), depth));
    } else {
      const paragraph = take((next, offset) => offset === 0 || (next.trim() && !startsBlock(next)));
      blocks.push(<p>{renderInline(paragraph.join("\n"))}</p>);
    }
  }
  return blocks;
}

function startsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || ITEM.test(line) || QUOTE.test(line) || RULE.test(line);
}

function renderList(lines, depth) {
  const items = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item) items.push([item[2]]);
    else items.at(-1).push(line.replace(/^ {1,4}/, ""));
  }
  const isOrdered = /^\s*\d/.test(lines[0]);
  const List = isOrdered ? "ol" : "ul";
  return (
    <List start={isOrdered ? Number.parseInt(lines[0].trim(), 10) : undefined}>
      {items.map((item, index) => (
        <li key={index}>{item.length === 1 ? renderInline(item[0]) : renderBlocks(item, depth + 1)}</li>
      ))}
    </List>
  );
}

function renderTable([head, , ...rows]) {
  const split = (line) => line.trim().replace(/^\||\|$/g, "").split("|");
  return (
    <div class="table-frame">
      <table class="table">
        <thead>
          <tr>
            {split(head).map((cell, index) => (
              <th key={index} scope="col">
                {renderInline(cell.trim())}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              {split(row).map((cell, column) => (
                <td key={column}>{renderInline(cell.trim())}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function renderInline(text, depth = 0) {
  if (depth > 4 || text.length > MAX_INLINE) return text;
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, , code, , bold, , italic, label, target, url, character] = match;
    parts.push(text.slice(end, match.index));
    if (code !== undefined) parts.push(<code>{code}</code>);
    else if (bold !== undefined) parts.push(<strong>{renderInline(bold, depth + 1)}</strong>);
    else if (italic !== undefined) parts.push(<em>{renderInline(italic, depth + 1)}</em>);
    else if (label !== undefined) parts.push(renderLink(label, target));
    else if (url !== undefined) parts.push(<SafeLink uri={url}>{url}</SafeLink>);
    else parts.push(character ?? whole);
    end = match.index + whole.length;
  }
  return [...parts, text.slice(end)];
}

/** A link with its address, unless the text is the address, because a server chooses both. */
function renderLink(label, target) {
  return (
    <>
      <SafeLink uri={target}>{label}</SafeLink>
      {label !== target && <span class="muted"> ({target})</span>}
    </>
  );
}
