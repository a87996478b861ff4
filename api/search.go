package api

// Contexts of searches: the kinds of objects that they find.
const (
	SearchAll        = "all"
	SearchJobs       = "jobs"
	SearchGroups     = "groups"
	SearchTasks      = "tasks"
	SearchImages     = "images"
	SearchCommands   = "commands"
	SearchClasses    = "classes"
	SearchServices   = "services"
	SearchAllocs     = "allocs"
	SearchNodes      = "nodes"
	SearchPools      = "node_pools"
	SearchNamespaces = "namespaces"
	SearchPlugins    = "plugins"
	SearchVolumes    = "volumes"
	SearchVariables  = "vars"
	SearchEvals      = "evals"
	SearchDeploys    = "deployment"
	SearchPolicies   = "scaling_policy"
	// SearchHostVolumes are dynamic host volumes.
	SearchHostVolumes = "host_volumes"
)

// FuzzySearchRequest finds objects whose names contain a text, in upper or lower case.
type FuzzySearchRequest struct {
	Text string `msg:",omitempty"`
	// Context is the kind of object; empty and "all" search all kinds.
	Context string `msg:",omitempty"`
	QueryOptions
}

// FuzzyMatch is an object that a search found.
type FuzzyMatch struct {
	// ID is the name that contains the text, such as that of a job, a task or an image.
	ID string `msg:",omitempty"`
	// Scope says where the object is, from the outside to the inside: the namespace, the job, the group, the task.
	Scope []string `json:",omitempty" msg:",omitempty"`
}

// FuzzySearchResponse lists matches by context, the best ones first.
type FuzzySearchResponse struct {
	Matches map[string][]*FuzzyMatch `msg:",omitempty"`
	// Truncations says for each context whether there are more matches.
	Truncations map[string]bool `msg:",omitempty"`
	QueryMeta
}
