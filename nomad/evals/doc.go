// Package evals is the service of evaluations. On every server [Service.Work] runs workers that schedule, and on
// the leader [Service.Run] hands out evaluations to all of them and commits their plans:
//
//	state feed -> broker -> worker: snapshot and fleet -> scheduler -> plan -> (plan and evaluation, one raft entry) -> ack
//	           -> blocked tracker -> (node, volume, plugin, claim changed) -> broker
//
// Run first reads everything and then follows changes, so after a change of leader it is right without
// memory. Other services only write evaluations into the state; no service calls the broker.
//
// Who writes what: workers write the status of evaluations and create blocked and follow-up ones, through
// nomad/plan when there is a plan, else by [Update]. A terminal evaluation is never written again.
//
// [Plan] runs the scheduler dry for a job that is not stored.
package evals
