// Package steps brings something up in order and takes it down in reverse.
//
//	Up:    begun ──► up          for each step, first to last; the first error ends it
//	Down:  down  ◄── going down  for each step whose Up began, last to first, each until it succeeds
//
// The journal is written before and after each step, so that a process that starts again knows which steps
// have begun and must be taken down. Up after a restart runs every step again: steps are idempotent, they
// find what is there, and so rebuild the scope. Down repeats a failing step at a capped rate until its
// context ends; a step that has begun is never skipped, for the ones below it may depend on its end.
//
// Nothing here starts goroutines, and none that a step starts may outlive its Down.
package steps
