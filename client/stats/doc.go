// Package stats measures what the host uses, from /proc and statfs.
package stats
