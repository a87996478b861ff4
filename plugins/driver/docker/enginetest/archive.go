package enginetest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
)

// Layer is an image's only layer with the program, as a tar, and its digest. Each mark makes it another layer: the engine
// downloads one of a digest once at a time, from one registry.
func Layer(program, mark string) (layer []byte, digest string, err error) {
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, "", err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, dir := range []string{"etc", "tmp", "data"} {
		if err := w.WriteHeader(&tar.Header{Name: dir + "/", Mode: 0o777, Typeflag: tar.TypeDir}); err != nil {
			return nil, "", err
		}
	}
	files := []struct {
		name string
		text []byte
		mode int64
	}{{"task", text, 0o755}, {"mark", []byte(mark), 0o644}, {"etc/passwd", []byte("root:x:0:0::/:/task\nweb:x:1000:1000::/:/task\n"), 0o644}, {"etc/group", []byte("root:x:0:\nweb:x:1000:\n"), 0o644}}
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text))}); err != nil {
			return nil, "", err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, "", err
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return out.Bytes(), Digest(out.Bytes()), nil
}

// Digest is the digest of a blob.
func Digest(blob []byte) string {
	sum := sha256.Sum256(blob)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ImageConfig is the configuration of an image with one layer; the mark makes it another image.
func ImageConfig(layer, mark string) []byte {
	text, _ := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/task"}, "Env": []string{"FROM_IMAGE=yes"}, "Labels": map[string]string{"mark": mark}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer}},
	})
	return text
}

// Archive is an archive of one image, as the engine loads it.
func Archive(name, program string) ([]byte, error) {
	layer, digest, err := Layer(program, name)
	if err != nil {
		return nil, err
	}
	config := ImageConfig(digest, name)
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name string
		text []byte
	}{{"config.json", config}, {"layer.tar", layer}, {"manifest.json", manifest}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.text))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}
