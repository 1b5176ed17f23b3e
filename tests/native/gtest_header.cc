// Empty: a target needs a source to precompile a header.
