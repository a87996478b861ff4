// Package ui serves the web user interface: static files that are part of the program. The page runs in the browser and
// uses only the public HTTP API, with the token of its user; this package reads nothing of the cluster.
//
// Invariants:
//   - No markup contains a script or a style: the content security policy permits files of this agent only.
//   - Files below the assets folder are addressed by the hash of the whole site and are kept by browsers indefinitely; the
//     page itself is checked with every load.
//   - A path below /ui/ that names no file is the page, which finds out by itself what the path shows.
package ui
