package api

// Options returns the options of a read, whatever request they are part of.
func (q *QueryOptions) Options() *QueryOptions { return q }

// Answer returns what a read answers beside its data, whatever response it is part of.
func (m *QueryMeta) Answer() *QueryMeta { return m }

// Writes returns the options of a write, whatever request they are part of.
func (w *WriteRequest) Writes() *WriteRequest { return w }

// Written returns what a write answers beside its data, whatever response it is part of.
func (m *WriteMeta) Written() *WriteMeta { return m }
