// Package claims decides what a login binds to: it maps the claims of an identity to names, selects binding rules by these
// names and fills them into templates.
//
// A claim name that begins with "/" is a JSON pointer (RFC 6901) into the claims; any other name is a claim of the top level.
package claims
