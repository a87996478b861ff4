package operator

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
)

const goodMeta = `{"Format":"open-nomad snapshot","Version":1,"ID":"2-9-1","Index":9,"Size":5}`

type part struct{ name, body string }

// archived packs the parts, with right checksums of those before the sums.
func archived(t *testing.T, meta string, more ...part) []byte {
	t.Helper()
	parts := []part{{"meta.json", meta}, {"state.bin", "state"}}
	var sums strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256([]byte(p.body)), p.name)
	}
	parts = append(append(parts, part{"SHA256SUMS", sums.String()}), more...)
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	pack := tar.NewWriter(zip)
	for _, p := range parts {
		if err := pack.WriteHeader(&tar.Header{Name: p.name, Mode: 0o600, Size: int64(len(p.body))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(pack, p.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(pack.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDescribeReadsAWholeSnapshot(t *testing.T) {
	t.Parallel()
	m, err := describe(bytes.NewReader(archived(t, goodMeta)))
	if err != nil || m.Index != 9 || m.ID != "2-9-1" {
		t.Fatalf("%+v %v", m, err)
	}
}

func TestDescribeRefusesWhatRestoreWouldRefuse(t *testing.T) {
	t.Parallel()
	good := archived(t, goodMeta)
	wrongSum := bytes.Clone(good)
	wrongSum[len(wrongSum)-6] ^= 1 // in gzip's checksum
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"its last bytes cut": {good[:len(good)-4], "truncated"},
		"gzip's checksum":    {wrongSum, "truncated"},
		"another program":    {archived(t, `{"Version":1,"ID":"2-9-1"}`), "of this program"},
		"a newer version":    {archived(t, strings.Replace(goodMeta, `"Version":1`, `"Version":2`, 1)), "version 2"},
		"more than it says":  {archived(t, goodMeta, part{"more", "x"}), `"more"`},
		"no archive":         {[]byte("hello\n"), "not a snapshot"},
		"half":               {good[:len(good)/2], "damaged"},
	} {
		m, err := describe(bytes.NewReader(c.file))
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %+v %v, want %q in one line", name, m, err, c.want)
		}
	}
}
