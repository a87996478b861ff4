// Package jsonspec decodes jobs in JSON, and the requests that carry them, over the defaults that HCL files have too. A
// text is read once, and nothing is built from it before its size and nesting are known to be within package bounds.
package jsonspec
