// Package escape runs hostile tasks of user nobody under a real agent. While people and the agent itself look at their
// files, restart, measure and collect them, they try what is in this package's tables, one file per kind, to reach what
// is not theirs, to fill the agent, or to stay when they are told to end.
package escape
