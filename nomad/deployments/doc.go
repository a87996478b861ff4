// Package deployments is the service of deployments: reading them, what users ask of them (promote, pause, fail,
// health of an allocation by hand), and the leader's loop that carries them on.
//
// Who writes what: a plan makes a deployment, says what it wants and ends it as successful or cancelled, for only
// the scheduler knows that nothing is left to do (nomad/plan). What is counted from allocations is written by
// nomad/deployments/tally, in the entry that changes the allocation. This service writes Promoted, the states
// running, paused and failed, and DesiredTransition.Reschedule of unhealthy allocations.
//
// What is to be done with a deployment is a pure function of the state and the time (judge.go). The leader asks it
// when something changed or a deadline passed, and proposes a step without saying what to do: the step asks the
// same function again when it is applied, so it cannot act on what has changed since. Nothing is kept that the
// next leader would miss.
package deployments
