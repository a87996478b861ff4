package api

//msgp:ignore AgentSelf AgentHealth AgentHealthResponse ServerMembers

// AgentMember is one server as the gossip pool sees it.
type AgentMember struct {
	Name        string            `msg:",omitempty"`
	Addr        string            `msg:",omitempty"`
	Port        uint16            `msg:",omitempty"`
	Tags        map[string]string `msg:",omitempty"`
	Status      string            `msg:",omitempty"`
	ProtocolMin uint8             `msg:",omitempty"`
	ProtocolMax uint8             `msg:",omitempty"`
	ProtocolCur uint8             `msg:",omitempty"`
	DelegateMin uint8             `msg:",omitempty"`
	DelegateMax uint8             `msg:",omitempty"`
	DelegateCur uint8             `msg:",omitempty"`
}

// AgentSelf is the response of GET /v1/agent/self.
type AgentSelf struct {
	Config map[string]any               `json:"config" msg:",omitempty"`
	Member AgentMember                  `json:"member" msg:",omitempty"`
	Stats  map[string]map[string]string `json:"stats" msg:",omitempty"`
}

// AgentHealth is the health of one half (server or client) of an agent.
type AgentHealth struct {
	Ok      bool   `json:"ok" msg:",omitempty"`
	Message string `json:"message" msg:",omitempty"`
}

// AgentHealthResponse is the response of GET /v1/agent/health.
type AgentHealthResponse struct {
	Client *AgentHealth `json:"client,omitempty" msg:",omitempty"`
	Server *AgentHealth `json:"server,omitempty" msg:",omitempty"`
}

// ServerMembers is the response of GET /v1/agent/members.
type ServerMembers struct {
	ServerName   string         `msg:",omitempty"`
	ServerRegion string         `msg:",omitempty"`
	ServerDC     string         `msg:",omitempty"`
	Members      []*AgentMember `msg:",omitempty"`
}
