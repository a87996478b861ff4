package httpapi

import "github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"

// Routes is the whole table.
func (c Config) Routes() []endpoint.Route { return c.routes() }
