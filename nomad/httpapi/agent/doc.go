// Package agent has the HTTP endpoints of this agent itself: what it is, how it is, whom it knows.
package agent
