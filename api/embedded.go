package api

// Options returns the options of a read's request.
func (q *QueryOptions) Options() *QueryOptions { return q }

// Answer returns the metadata of a read's response.
func (m *QueryMeta) Answer() *QueryMeta { return m }

// Writes returns the options of a write's request.
func (w *WriteRequest) Writes() *WriteRequest { return w }

// Written returns the metadata of a write's response.
func (m *WriteMeta) Written() *WriteMeta { return m }

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

// Namespaces implements [Namespaced].
func (q *QueryOptions) Namespaces() []string { return []string{q.Namespace} }

// Namespaces implements [Namespaced].
func (w *WriteRequest) Namespaces() []string { return []string{w.Namespace} }

// Secret implements [Authenticated].
func (q *QueryOptions) Secret() *string { return &q.AuthToken }

// Secret implements [Authenticated].
func (w *WriteRequest) Secret() *string { return &w.SecretID }
