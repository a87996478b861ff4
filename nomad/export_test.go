package nomad

import "github.com/open-nomad/open-nomad/api/wire"

// Methods are all that the server answers.
func (s *Server) Methods() []wire.Handler { return s.rpc.Methods() }
