// Package agents serves what operators see of the agents of servers: logs, hosts and profiles.
package agents
