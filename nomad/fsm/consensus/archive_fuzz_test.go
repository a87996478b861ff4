package consensus_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm/archive"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// sealed packs a head and a state as an archive with checksums that are right.
func sealed(tb testing.TB, head, dump []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	pack := tar.NewWriter(zip)
	sums := fmt.Sprintf("%x  meta.json\n%x  state.bin\n", sha256.Sum256(head), sha256.Sum256(dump))
	for _, file := range []struct {
		name string
		body []byte
	}{{"meta.json", head}, {"state.bin", dump}, {"SHA256SUMS", []byte(sums)}} {
		if err := pack.WriteHeader(&tar.Header{Name: file.name, Size: int64(len(file.body)), Mode: 0o600, Typeflag: tar.TypeReg}); err != nil {
			tb.Fatal(err)
		}
		_, _ = pack.Write(file.body)
	}
	_ = pack.Close()
	_ = zip.Close()
	return b.Bytes()
}

// FuzzArchive reads any bytes as a snapshot: as they come, and as the state in one whose checksums are right.
func FuzzArchive(f *testing.F) {
	s := state.New()
	tx := s.Write(10, time.Unix(1_700_000_000, 0))
	tx.PutNode(&api.Node{ID: "n"})
	tx.PutJob(&api.Job{ID: "j", Namespace: "default"})
	tx.PutAlloc(&api.Allocation{ID: "a", Namespace: "default", JobID: "j", NodeID: "n"})
	tx.Commit()
	var dump bytes.Buffer
	if err := s.Read().Dump(&dump); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"Format":"open-nomad snapshot","Version":1,"Size":9223372036854775807}`), []byte{})
	f.Add([]byte(fmt.Sprintf(`{"Format":"open-nomad snapshot","Version":1,"Size":%d}`, dump.Len())), dump.Bytes())
	f.Add([]byte{}, dump.Bytes()[:dump.Len()/2])
	f.Fuzz(func(t *testing.T, head, body []byte) {
		_, _ = archive.Inspect(t.Context(), bytes.NewReader(body))
		good := []byte(fmt.Sprintf(`{"Format":"open-nomad snapshot","Version":1,"Size":%d}`, len(body)))
		_, _ = archive.Inspect(t.Context(), bytes.NewReader(sealed(t, good, body)))
		_, _ = archive.Inspect(t.Context(), bytes.NewReader(sealed(t, head, body)))
	})
}
