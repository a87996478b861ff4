package api

import "cmp"

// Namespaced is a request that is about objects of namespaces.
type Namespaced interface {
	// Namespaces are all the namespaces that the request names; the empty name is the default namespace, "*" all.
	Namespaces() []string
}

// Authenticated is a request that carries the secret of its caller.
type Authenticated interface {
	// Secret points to the secret, so that it can be taken out before a request goes to a node.
	Secret() *string
}

// OfNode is a request about one node.
type OfNode interface {
	OfNode() string
}

// OfAlloc is a request about one allocation.
type OfAlloc interface {
	OfAlloc() string
}

// Attributed is a request to a node that names who makes it.
type Attributed interface {
	SetAccessor(accessorID string)
}

// ByNode is a request that a node makes and authenticates with its secret.
type ByNode interface {
	NodeCredentials() (id, secret string)
}

// Namespaces implements [Namespaced].
func (q *QueryOptions) Namespaces() []string { return []string{q.Namespace} }

// Namespaces implements [Namespaced].
func (w *WriteRequest) Namespaces() []string { return []string{w.Namespace} }

// Namespaces implements [Namespaced]. The namespace of the request comes before that of the job.
func (r *JobRegisterRequest) Namespaces() []string { return jobNamespace(r.Namespace, r.Job) }

// Namespaces implements [Namespaced]. The namespace of the request comes before that of the job.
func (r *JobValidateRequest) Namespaces() []string { return jobNamespace(r.Namespace, r.Job) }

// Namespaces implements [Namespaced]. The namespace of the request comes before that of the job.
func (r *JobPlanRequest) Namespaces() []string { return jobNamespace(r.Namespace, r.Job) }

func jobNamespace(request string, j *Job) []string {
	if j == nil {
		return []string{request}
	}
	return []string{cmp.Or(request, j.Namespace)}
}

// Namespaces implements [Namespaced]. The namespace of a volume comes before that of the request.
func (r *VolumeRegisterRequest) Namespaces() []string {
	return volumeNamespaces(r.Namespace, r.Volumes)
}

// Namespaces implements [Namespaced]. The namespace of a volume comes before that of the request.
func (r *VolumeCreateRequest) Namespaces() []string { return volumeNamespaces(r.Namespace, r.Volumes) }

// Namespaces implements [Namespaced]. The namespace of the volume comes before that of the request.
func (r *HostVolumeWriteRequest) Namespaces() []string {
	if r.Volume == nil {
		return []string{r.Namespace}
	}
	return []string{cmp.Or(r.Volume.Namespace, r.Namespace)}
}

func volumeNamespaces(request string, volumes []*VolumeSpec) []string {
	names := []string{request}
	for _, v := range volumes {
		if v != nil && v.Namespace != "" {
			names = append(names, v.Namespace)
		}
	}
	if len(names) > len(volumes) && len(volumes) > 0 {
		return names[1:] // each volume names its own
	}
	return names
}

// Secret implements [Authenticated].
func (q *QueryOptions) Secret() *string { return &q.AuthToken }

// Secret implements [Authenticated].
func (w *WriteRequest) Secret() *string { return &w.SecretID }

// OfNode implements [OfNode].
func (r *NodeRequest) OfNode() string { return r.NodeID }

// OfNode implements [OfNode].
func (r *NodeDrainRequest) OfNode() string { return r.NodeID }

// OfAlloc implements [OfAlloc].
func (r *AllocRequest) OfAlloc() string { return r.AllocID }

// OfAlloc implements [OfAlloc].
func (r *AllocRestartRequest) OfAlloc() string { return r.AllocID }

// OfAlloc implements [OfAlloc].
func (r *AllocSignalRequest) OfAlloc() string { return r.AllocID }

// OfAlloc implements [OfAlloc].
func (r *AllocPauseRequest) OfAlloc() string { return r.AllocID }

// OfAlloc implements [OfAlloc].
func (r *AllocPauseStateRequest) OfAlloc() string { return r.AllocID }

// OfAlloc implements [OfAlloc].
func (r *AllocLogsRequest) OfAlloc() string { return r.AllocID }

// OfAlloc implements [OfAlloc].
func (r *AllocFileRequest) OfAlloc() string { return r.AllocID }

// NodeCredentials implements [ByNode]. The identity in a registration may have expired.
func (r *NodeRegisterRequest) NodeCredentials() (id, secret string) {
	if r.Node == nil {
		return "", ""
	}
	return r.Node.ID, r.Node.SecretID
}

// NodeCredentials implements [ByNode].
func (r *NodeHeartbeatRequest) NodeCredentials() (id, secret string) { return r.NodeID, r.NodeSecret }

// NodeCredentials implements [ByNode].
func (r *NodeAssignmentsRequest) NodeCredentials() (id, secret string) { return r.NodeID, r.NodeSecret }

// NodeCredentials implements [ByNode].
func (r *AllocUpdateRequest) NodeCredentials() (id, secret string) { return r.NodeID, r.NodeSecret }

// NodeCredentials implements [ByNode].
func (r *VolumeClaimRequest) NodeCredentials() (id, secret string) { return r.NodeID, r.NodeSecret }

// NodeCredentials implements [ByNode].
func (r *VolumeUnpublishRequest) NodeCredentials() (id, secret string) { return r.NodeID, r.NodeSecret }

// NodeCredentials implements [ByNode].
func (r *VolumeIntentRequest) NodeCredentials() (id, secret string) { return r.NodeID, r.NodeSecret }
