// Package model checks what the servers make of jobs and nodes against a model of its own: tests only.
//
// A world runs the services of a leader over a log in memory, and plays nodes, users and clients. After every step it
// comes to rest; then the model (expect_test.go and what it uses) says from the specification alone, and from what was
// there before the step, which allocations must have stayed, which must have gone, what must have come, and who has to
// wait. It uses nothing of packages scheduler and deployments. Where two outcomes are right it takes both.
package model
