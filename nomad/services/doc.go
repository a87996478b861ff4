// Package services serves the instances of services that allocations offer. Package registry computes them, and the state
// changes them together with their allocations.
package services
