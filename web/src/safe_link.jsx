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
