package wire

import "github.com/open-nomad/open-nomad/api"

// Methods of agents: those of servers, and those of nodes.
var (
	// AgentMonitor reads the log of a server.
	AgentMonitor = Method[api.AgentMonitorRequest, api.AgentMonitorResponse]{"Agent.Monitor", Any, ByUser, agentRead}
	// AgentHost describes the host of a server.
	AgentHost = Method[api.AgentHostRequest, api.HostDataResponse]{"Agent.Host", Any, ByUser, agentWrite}
	// AgentProfile takes a profile of a server.
	AgentProfile = Method[api.AgentProfileRequest, api.AgentProfileResponse]{"Agent.Profile", Any, ByUser, agentWrite}
	// ClientAgentMonitor reads the log of the agent of a node.
	ClientAgentMonitor = Method[api.AgentMonitorRequest, api.AgentMonitorResponse]{"ClientAgent.Monitor", OnNode, ByUser, agentRead}
	// ClientAgentHost describes the host of a node.
	ClientAgentHost = Method[api.AgentHostRequest, api.HostDataResponse]{"ClientAgent.Host", OnNode, ByUser, agentWrite}
	// ClientAgentProfile takes a profile of the agent of a node.
	ClientAgentProfile = Method[api.AgentProfileRequest, api.AgentProfileResponse]{"ClientAgent.Profile", OnNode, ByUser, agentWrite}
)
