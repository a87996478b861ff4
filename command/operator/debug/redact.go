package debug

import (
	"bytes"
	"encoding/json"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/lazy"
)

// redacted replaces a secret.
const redacted = "<redacted>"

// hiddenKeys are keys whose values may be secrets of users: all texts below them are replaced.
var hiddenKeys = map[string]bool{
	"Env": true, "EmbeddedTmpl": true, "Config": true, "Secrets": true, "Items": true, "Payload": true, "Source": true, "Variables": true, "VariableFlags": true,
	"Args": true, "Body": true, "Header": true, "Headers": true, "HTTPHeaders": true, "GetterOptions": true, "GetterHeaders": true, "GetterSource": true, "MountFlags": true,
	"Encrypt": true, "encrypt": true, "HostEnvironment": true,
}

// secretKey matches keys that name secrets wherever they are.
var secretKey = lazy.Regexp(`(?i)(secret|passw|token$|token_?value|private_?key|credential|api_?key|access_?key|^jwt$|bearer|authorization|cookie)`)

// redact removes secrets from a JSON document and indents it. Strict also removes metadata, for documents with whole jobs.
func redact(body []byte, strict bool) ([]byte, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return []byte("null\n"), nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		return nil, fault.New(fault.Internal, "the response is not JSON")
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(clean(doc, strict))
	return out.Bytes(), err
}

// clean replaces secrets in a decoded document.
func clean(v any, strict bool) any {
	switch x := v.(type) {
	case []any:
		for i := range x {
			x[i] = clean(x[i], strict)
		}
	case map[string]any:
		for key, value := range x {
			_, object := value.(map[string]any)
			switch {
			case key == "Payload" && object: // of an event, which is not that of a dispatched job
				x[key] = clean(value, strict)
			case hiddenKeys[key], strict && key == "Meta", secretKey().MatchString(key) && !plain(value):
				x[key] = hidden(value)
			default:
				x[key] = clean(value, strict)
			}
		}
	}
	return v
}

// hidden replaces all texts in a value; keys, numbers and lengths stay.
func hidden(v any) any {
	switch x := v.(type) {
	case string:
		if x != "" {
			return redacted
		}
	case json.Number:
		return json.Number("0")
	case []any:
		for i := range x {
			x[i] = hidden(x[i])
		}
	case map[string]any:
		for key, value := range x {
			x[key] = hidden(value)
		}
	}
	return v
}

// plain reports whether a value is a number or a truth value, such as a size or a lifetime.
func plain(v any) bool {
	switch v.(type) {
	case json.Number, bool:
		return true
	}
	return false
}
