// Package taskenv makes the environment of a task and fills in its variables.
//
// An [Env] is made of facts only: the same [Input] gives the same environment. Names are looked up in this
// order: variables of the task (NOMAD_* first, then the host's, then the task's own env block), then
// ${node.*}, ${attr.*} and ${meta.*} of the node. Text in ${...} that names nothing stays as it is, so that
// a shell inside the task still sees it.
package taskenv
