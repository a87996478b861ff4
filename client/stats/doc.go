// Package stats measures what the host uses: memory, processors, uptime and the file system of allocations.
package stats
