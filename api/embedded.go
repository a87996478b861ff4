package api

// Options returns the options of a read's request.
func (q *QueryOptions) Options() *QueryOptions { return q }

// Answer returns the metadata of a read's response.
func (m *QueryMeta) Answer() *QueryMeta { return m }

// Writes returns the options of a write's request.
func (w *WriteRequest) Writes() *WriteRequest { return w }

// Written returns the metadata of a write's response.
func (m *WriteMeta) Written() *WriteMeta { return m }
