"""The words every room speaks: tools, content, results, errors, context, extension points."""
