package debug

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
)

const (
	// callMax bounds one call, and triesMax how often it is repeated.
	callMax  = 15 * time.Second
	triesMax = 5
	// bodyMax bounds the response to one call, logMax the log of one agent, in bytes.
	bodyMax = 64 << 20
	logMax  = 256 << 20
	// pageRows is the size of a page of a list, and rowsMax bounds the rows of a file.
	pageRows = 1000
	rowsMax  = 50_000
	// nameMax bounds the name of a file that is made from an id.
	nameMax = 150
)

// failure is a file that is missing or incomplete.
type failure struct{ Path, Error string }

// failed records that a file was not captured, and writes the error into it.
func (c *capture) failed(ctx context.Context, name string, err error) {
	text := c.hide(err.Error())
	switch {
	case c.parent.Err() != nil && ctx.Err() != nil:
		text = "the capture was interrupted"
	case errors.Is(err, context.DeadlineExceeded):
		text = "no response within the bound of the call"
	}
	body, _ := json.MarshalIndent(map[string]string{"Error": text}, "", "  ")
	if strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".txt") {
		body = []byte("Error: " + text)
	}
	if f, err := c.open(name); err == nil {
		_, _ = f.Write(append(body, '\n'))
		_ = f.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, failure{name, text})
}

// open opens a file to append to it, with its folders.
func (c *capture) open(name string) (*os.File, error) {
	if err := c.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return nil, err
	}
	return c.root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

func (c *capture) write(ctx context.Context, name string, body []byte) {
	f, err := c.open(name)
	if err == nil {
		_, err = f.Write(body)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		c.failed(ctx, name, err)
	}
}

// hide removes the token of the command from a text.
func (c *capture) hide(text string) string {
	for _, secret := range c.secrets {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	return text
}

// limited is a buffer that refuses more than bodyMax bytes.
type limited struct{ bytes.Buffer }

// Write implements [io.Writer].
func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > bodyMax {
		return 0, fault.New(fault.TooLarge, "the response has more than %d MiB", bodyMax>>20)
	}
	return l.Buffer.Write(p)
}

// read makes one bounded call, again where the other side is busy: the server and the node of one agent share a process, which
// describes its host and profiles its processors for one caller at a time.
func (c *capture) read(ctx context.Context, bound time.Duration, at []string, params url.Values) (body []byte, next string, err error) {
	for try := 0; ; try++ {
		body, next, err = c.once(ctx, bound, at, params)
		if try == triesMax || !errors.Is(err, fault.Exhausted) {
			return body, next, err
		}
		select {
		case <-time.After(max(time.Second, c.o.profile)):
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
}

func (c *capture) once(ctx context.Context, bound time.Duration, at []string, params url.Values) (body []byte, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	r, err := c.s.Prepare(ctx, rest.RawRequest{Method: http.MethodGet, Path: at, Params: params})
	if err != nil {
		return nil, "", err
	}
	var out limited
	err = c.s.Send(r, &out, func(resp *http.Response) { next = resp.Header.Get("X-Nomad-NextToken") })
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return out.Bytes(), next, err
}

// save captures one document without its secrets, and returns it; nil if that failed.
func (c *capture) save(ctx context.Context, name string, params url.Values, at ...string) []byte {
	body, _, err := c.read(ctx, callMax, at, params)
	if err == nil {
		body, err = redact(body, false)
	}
	if err != nil {
		c.failed(ctx, name, err)
		return nil
	}
	body = []byte(c.hide(string(body)))
	c.write(ctx, name, body)
	return body
}

// saveList captures a list, page by page.
func (c *capture) saveList(ctx context.Context, name string, params url.Values, at ...string) []byte {
	rows, token := []json.RawMessage{}, ""
	for {
		q := url.Values{"per_page": {"1000"}}
		for k, v := range params {
			q[k] = v
		}
		if token != "" {
			q.Set("next_token", token)
		}
		body, next, err := c.read(ctx, callMax, at, q)
		var page []json.RawMessage
		if err == nil {
			if body, err = redact(body, false); err == nil {
				err = json.Unmarshal(body, &page)
			}
		}
		rows = append(rows, page...)
		if err == nil && next != "" && (next == token || len(rows) >= rowsMax) {
			err = fault.New(fault.TooLarge, "the list has more than %d rows; the file contains the first", len(rows))
		}
		if err != nil && len(rows) == 0 {
			c.failed(ctx, name, err)
			return nil
		}
		if err != nil {
			c.failed(ctx, name+".error", err)
		}
		if err != nil || next == "" {
			break
		}
		token = next
	}
	body, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		c.failed(ctx, name, err)
		return nil
	}
	body = []byte(c.hide(string(body)))
	c.write(ctx, name, body)
	return body
}

// fileName makes the name of a file from an id that others chose.
func fileName(id string) string {
	name := strings.ReplaceAll(url.PathEscape(id), ":", "%3A")
	if strings.HasPrefix(name, ".") || name == "" {
		name = "%2E" + strings.TrimPrefix(name, ".")
	}
	if len(name) > nameMax {
		sum := sha256.Sum256([]byte(id))
		name = name[:nameMax] + "-" + hex.EncodeToString(sum[:8])
	}
	return name
}

// file is a row of the index.
type file struct {
	Path string
	Size int64
}

// files lists what was captured.
func files(root *os.Root) (list []file, err error) {
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			list = append(list, file{name, info.Size()})
		}
		return err
	})
	return list, err
}

// pack writes the files into a compressed archive.
func pack(root *os.Root, prefix, target string) (err error) {
	out, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			_ = os.Remove(target)
		}
	}()
	zip := gzip.NewWriter(out)
	archive := tar.NewWriter(zip)
	all, err := files(root)
	if err != nil {
		return err
	}
	for _, f := range all {
		if err := add(archive, root, prefix, f); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zip.Close())
}

func add(archive *tar.Writer, root *os.Root, prefix string, f file) error {
	in, err := root.Open(f.Path)
	if err != nil {
		return err
	}
	defer in.Close()
	err = archive.WriteHeader(&tar.Header{Name: path.Join(prefix, f.Path), Mode: 0o600, Size: f.Size, ModTime: time.Now().Truncate(time.Second), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = io.CopyN(archive, in, f.Size)
	}
	return err
}
