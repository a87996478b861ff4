// Package workgroup waits for goroutines at an end, within a bound, and names those that hang. Servers and clients
// share it.
package workgroup
