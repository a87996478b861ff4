// Package link is the node's connection to the servers: calls go up to any server that replies,
// and servers call down over connections that the node dialled itself.
//
// Calls fail over: a reply of class Unavailable or NotLeader is tried again at the next server, with growing pauses,
// for as long as the caller's context lives. So callers set deadlines, and calls that must not be repeated, as the
// writes of users, have a context of [wire.Once]: they are sent again only if no server has begun them.
//
// A host that loses its power or its network resets no connection. So a server for which calls wait is
// asked every second for a sign of life (more seldom in large clusters); when it gives none, or knows no
// leader, and another server does better, its calls end and go there. See watch.go.
//
// One reversed connection per known server is kept open once the node has an identity. The servers report their
// addresses; until then, and when none of those replies to calls, the configured ones count.
package link
