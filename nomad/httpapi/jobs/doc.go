// Package jobs has the HTTP endpoints of jobs: reading, registering, changing, parsing and scaling.
package jobs
