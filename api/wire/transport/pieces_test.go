package transport_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/shape"
	"github.com/open-nomad/open-nomad/api/wire/transport"
)

// What is sent must be what the other side decodes.
func TestDecodersAllowWhatIsSent(t *testing.T) {
	t.Parallel()
	if api.PieceMax > shape.EntriesMax {
		t.Errorf("pieces have %d bytes and decoders allow %d", api.PieceMax, shape.EntriesMax)
	}
	limit := fmt.Sprint("limit=", transport.MaxMessageBytes)
	for _, carries := range []reflect.Type{reflect.TypeFor[api.RelayRequest](), reflect.TypeFor[api.RelayResponse](), reflect.TypeFor[api.NodeCallRequest]()} {
		f, _ := carries.FieldByName("Body")
		if !strings.Contains(f.Tag.Get("msg"), limit) {
			t.Errorf("%s carries whole messages and its body has %q, not %s", carries.Name(), f.Tag.Get("msg"), limit)
		}
	}
}
