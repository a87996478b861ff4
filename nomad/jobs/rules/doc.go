// Package rules validates jobs and completes the valid ones.
//
// [Check] reports everything that is wrong at once and names group, task and field. [Warnings] lists
// what is legal and probably not meant. [Complete] adds what the servers fill in: defaults that no
// file has, and the constraints that follow from what a group uses, so that it is only placed where
// that exists.
//
// The package is pure.
package rules
