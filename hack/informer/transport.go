package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strconv"
)

// wrap counts requests and answers beneath client-go, which hides relists and reconnects from its users.
func (l *ledger) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		resource := path.Base(request.URL.Path)
		query := request.URL.Query()
		watches := query.Get("watch") == "true" || query.Get("watch") == "1"
		l.change(resource, func(kept *record) {
			switch {
			case !watches:
				kept.Lists++
			case query.Get("sendInitialEvents") == "true":
				kept.Streams++
			default:
				kept.Watches++
			}
		})
		response, err := next.RoundTrip(request)
		if err != nil || !watches {
			return response, err
		}
		if response.StatusCode == http.StatusGone {
			l.change(resource, func(kept *record) { kept.RefusedStart++ })
		}
		response.Body = &lines{ReadCloser: response.Body, each: func(line []byte) { l.line(resource, line) }}
		return response, err
	})
}

func (l *ledger) line(resource string, line []byte) {
	if !bytes.HasPrefix(line, []byte(`{"type":"ERROR"`)) && !bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`)) {
		return
	}
	var told struct {
		Type   string `json:"type"`
		Object struct {
			Metadata struct {
				ResourceVersion string `json:"resourceVersion"`
			} `json:"metadata"`
		} `json:"object"`
	}
	if err := json.Unmarshal(line, &told); err != nil {
		return
	}
	l.change(resource, func(kept *record) {
		if told.Type == "ERROR" {
			kept.ErrorEvents++
			return
		}
		version, err := strconv.ParseUint(told.Object.Metadata.ResourceVersion, 10, 64)
		if err != nil {
			kept.broken("a bookmark of version %q", told.Object.Metadata.ResourceVersion)
		}
		kept.bookmark = max(kept.bookmark, version)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// lines shows each whole line to `each` while the body is read.
type lines struct {
	io.ReadCloser
	begun []byte
	each  func([]byte)
}

func (l *lines) Read(buffer []byte) (int, error) {
	count, err := l.ReadCloser.Read(buffer)
	rest := buffer[:count]
	for {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			l.begun = append(l.begun, rest...)
			return count, err
		}
		l.each(append(l.begun, rest[:end]...))
		l.begun, rest = nil, rest[end+1:]
	}
}
