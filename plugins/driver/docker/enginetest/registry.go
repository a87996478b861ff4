package enginetest

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// Registry is a registry of images for tests. Its account is user and secret.
type Registry struct {
	// Address is its host and port.
	Address string

	server *httptest.Server
	blobs  map[string][]byte

	mu        sync.Mutex
	manifests map[string][]byte
	// private is set when the registry needs the account.
	private bool
	pulls   int
	// hold, when it is not nil, holds up the layer until it is closed.
	hold chan struct{}
	stop chan struct{}
}

// NewRegistry starts a registry whose images have the program; a private one needs the account. Close ends it.
func NewRegistry(program string, private bool) (*Registry, error) {
	layer, digest, err := Layer(program, rand.Text())
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(layer); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	r := &Registry{blobs: map[string][]byte{Digest(packed.Bytes()): packed.Bytes(), "layer": packed.Bytes(), "diff": []byte(digest)}, manifests: map[string][]byte{}, private: private, stop: make(chan struct{})}
	r.server = httptest.NewServer(http.HandlerFunc(r.serve))
	r.Address = strings.TrimPrefix(r.server.URL, "http://")
	return r, nil
}

// Close ends the registry.
func (r *Registry) Close() {
	close(r.stop)
	r.server.CloseClientConnections()
	r.server.Close()
}

const manifestType = "application/vnd.docker.distribution.manifest.v2+json"

// Add adds an image, or replaces it; each mark is another image. It returns the image's name.
func (r *Registry) Add(name, tag, mark string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	config := ImageConfig(string(r.blobs["diff"]), r.Address+" "+mark) // what the engine has of other tests is not downloaded again
	layer := r.blobs["layer"]
	r.blobs[Digest(config)] = config
	manifest, _ := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": map[string]any{"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": Digest(config)},
		"layers": []map[string]any{{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": len(layer), "digest": Digest(layer)}},
	})
	r.manifests[name+":"+tag], r.manifests[name+":"+Digest(manifest)] = manifest, manifest
	return fmt.Sprintf("%s/%s:%s", r.Address, name, tag)
}

// Hold holds up downloads of configurations and layers until the returned function is called.
func (r *Registry) Hold() func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	hold := make(chan struct{})
	r.hold = hold
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hold = nil
		close(hold)
	})
}

// Pulls counts the requests for manifests by a tag.
func (r *Registry) Pulls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pulls
}

func (r *Registry) serve(w http.ResponseWriter, q *http.Request) {
	if user, password, ok := q.BasicAuth(); r.private && (!ok || user != "user" || password != "secret") {
		refuse(w)
		return
	}
	if q.URL.Path == "/v2/" {
		return
	}
	name, object, kind := split(q.URL.Path)
	r.mu.Lock()
	manifest, blob, hold := r.manifests[name+":"+object], r.blobs[object], r.hold
	if kind == "manifests" && !strings.HasPrefix(object, "sha256:") {
		r.pulls++
	}
	r.mu.Unlock()
	switch {
	case kind == "manifests" && manifest != nil:
		w.Header().Set("Content-Type", manifestType)
		w.Header().Set("Docker-Content-Digest", Digest(manifest))
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(manifest))
	case kind == "blobs" && blob != nil:
		if hold != nil {
			select {
			case <-hold:
			case <-r.stop:
			case <-q.Context().Done():
				return
			}
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(blob))
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)
	}
}

func refuse(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
	w.WriteHeader(http.StatusUnauthorized)
	fmt.Fprint(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
}

// split splits /v2/<name>/<kind>/<object>.
func split(path string) (name, object, kind string) {
	f := strings.Split(strings.TrimPrefix(path, "/v2/"), "/")
	if len(f) < 3 {
		return "", "", ""
	}
	return strings.Join(f[:len(f)-2], "/"), f[len(f)-1], f[len(f)-2]
}
