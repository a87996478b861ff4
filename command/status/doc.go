// Package status has the verbs that look at anything: "nomad status" finds an object of any kind
// by the beginning of its id, "nomad agent-info" shows the agent itself.
package status
