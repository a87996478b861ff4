package rest_test

import (
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
)

func TestAuthoritiesComeFromAFileOrAFolder(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(nil)
	t.Cleanup(srv.Close)
	dir, empty := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "ca.pem")
	body := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := errors.Join(os.WriteFile(file, body, 0o600), os.Mkdir(filepath.Join(dir, "sub"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		tls  rest.TLS
		want string
	}{
		"file":           {rest.TLS{CACert: file}, "404"},
		"folder":         {rest.TLS{CAPath: dir}, "404"},
		"not verified":   {rest.TLS{SkipVerify: true}, "404"},
		"other name":     {rest.TLS{CACert: file, ServerName: "other.test"}, "-tls-server-name"},
		"system's":       {rest.TLS{}, "name the authority with -ca-cert"},
		"empty folder":   {rest.TLS{CAPath: empty}, "no certificate authority in folder " + empty},
		"missing folder": {rest.TLS{CAPath: "/nowhere"}, "/nowhere"},
		"missing file":   {rest.TLS{CACert: "/nowhere.pem"}, "/nowhere.pem"},
		"half a pair":    {rest.TLS{ClientKey: file}, "are needed both"},
		"no key in file": {rest.TLS{ClientCert: file, ClientKey: file}, file},
	} {
		client, err := rest.New(rest.Config{Address: srv.URL, TLS: c.tls})
		if err == nil {
			_, _, err = client.Jobs(t.Context(), rest.Query{})
		} else if !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: class %v", name, fault.Of(err))
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
