package main

import (
	"fmt"
	"maps"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// event is one call of an event handler.
type event struct {
	Event string `json:"event"`
	Name  string `json:"name"`
	State string `json:"state"`
	// Final is false for a deletion that was only noticed by listing anew.
	Final bool `json:"final"`
}

// record is what one informer saw and what was asked of the server for it.
type record struct {
	Events []event `json:"events"`
	// Broken are events that do not fit what was seen before.
	Broken []string `json:"broken"`

	Lists        int `json:"lists"`
	Streams      int `json:"streams"`
	Watches      int `json:"watches"`
	RefusedStart int `json:"refused_start"`
	ErrorEvents  int `json:"error_events"`

	objects  map[string]string
	bookmark uint64
}

// ledger keeps the records and wakes whoever waits for one.
type ledger struct {
	mutex   sync.Mutex
	changed *sync.Cond
	records map[string]*record
}

func newLedger(resources ...string) *ledger {
	made := &ledger{records: map[string]*record{}}
	made.changed = sync.NewCond(&made.mutex)
	for _, resource := range resources {
		made.records[resource] = &record{Events: []event{}, Broken: []string{}, objects: map[string]string{}}
	}
	return made
}

func (l *ledger) change(resource string, apply func(*record)) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if kept, known := l.records[resource]; known {
		apply(kept)
		l.changed.Broadcast()
	}
}

func (l *ledger) await(resource string, reached func(*record) bool) int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for !reached(l.records[resource]) {
		l.changed.Wait()
	}
	return len(l.records[resource].Events)
}

func (l *ledger) awaitObjects(resource string, objects map[string]string) int {
	return l.await(resource, func(kept *record) bool { return maps.Equal(kept.objects, objects) })
}

func (l *ledger) awaitBookmark(resource string, version uint64) {
	l.await(resource, func(kept *record) bool { return kept.bookmark >= version })
}

func (l *ledger) report() map[string]record {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	copies := map[string]record{}
	for resource, kept := range l.records {
		copies[resource] = *kept
	}
	return copies
}

// handler writes down what an informer tells, and whether it fits what it told before.
func (l *ledger) handler(resource string) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			name, state := identify(object)
			l.change(resource, func(kept *record) {
				if known, present := kept.objects[name]; present {
					kept.broken("added %s as %s, but it was there as %s", name, state, known)
				}
				kept.objects[name] = state
				kept.Events = append(kept.Events, event{"add", name, state, true})
			})
		},
		UpdateFunc: func(before, object any) {
			name, state := identify(object)
			_, old := identify(before)
			l.change(resource, func(kept *record) {
				if known := kept.objects[name]; known != old {
					kept.broken("updated %s from %s to %s, but it was known as %q", name, old, state, known)
				}
				if old == state { // listed anew and found unchanged
					return
				}
				kept.objects[name] = state
				kept.Events = append(kept.Events, event{"update", name, state, true})
			})
		},
		DeleteFunc: func(object any) {
			unknown, unseen := object.(cache.DeletedFinalStateUnknown)
			if unseen {
				object = unknown.Obj
			}
			name, state := identify(object)
			l.change(resource, func(kept *record) {
				if _, present := kept.objects[name]; !present {
					kept.broken("deleted %s as %s, but it was not there", name, state)
				}
				delete(kept.objects, name)
				kept.Events = append(kept.Events, event{"delete", name, state, !unseen})
			})
		},
	}
}

func (kept *record) broken(format string, values ...any) {
	kept.Broken = append(kept.Broken, fmt.Sprintf(format, values...))
}
