package wire

import "github.com/open-nomad/open-nomad/api"

// Methods of sessions, each of which runs a command in a task.
var (
	// ClientAllocExecOpen opens a session; it starts nothing.
	ClientAllocExecOpen = Method[api.ExecOpenRequest, api.ExecOpenResponse]{"ClientAlloc.ExecOpen", OnNode, ByUser, execInTask}
	// ClientAllocExec continues a session in a task that has files of its own.
	ClientAllocExec = Method[api.ExecRequest, api.ExecResponse]{"ClientAlloc.Exec", OnNode, ByUser, execInTask}
	// ClientAllocNodeExec continues a session in a task that sees the files of the node.
	ClientAllocNodeExec = Method[api.ExecRequest, api.ExecResponse]{"ClientAlloc.NodeExec", OnNode, ByUser, execInTask.and(ofRow("alloc-node-exec"))}
)
