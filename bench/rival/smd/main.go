// The rival of `evenkeel-bench apply`: the structured-merge-diff that kube-apiserver 1.36 uses.
//
// Reads a schema from the file in the first argument, and lines of JSON from stdin, each with a live
// object, an applied configuration and the live object after a change. Prints for each line the
// nanoseconds of one merge, one comparison and one apply in the fastest round.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"time"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/merge"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

const (
	version  = fieldpath.APIVersion("apps/v1")
	manager  = "bench"
	typeName = "io.k8s.api.apps.v1.Deployment"
	// How long each measurement is repeated; the fastest round counts.
	repeatFor = 300 * time.Millisecond
)

type request struct {
	Live, Applied, Changed map[string]interface{}
}

type response struct {
	Merge   int64 `json:"merge"`
	Compare int64 `json:"compare"`
	Apply   int64 `json:"apply"`
}

// converter supports a single version.
type converter struct{}

func (converter) Convert(object *typed.TypedValue, _ fieldpath.APIVersion) (*typed.TypedValue, error) {
	return object, nil
}

func (converter) IsMissingVersionError(error) bool { return false }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	schema, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	parser, err := typed.NewParser(typed.YAMLObject(schema))
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var req request
		if err := json.Unmarshal(in.Bytes(), &req); err != nil {
			return err
		}
		resp, err := measure(parser.Type(typeName), req)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(resp); err != nil {
			return err
		}
	}
	return in.Err()
}

func measure(kind typed.ParseableType, req request) (response, error) {
	var objects [3]*typed.TypedValue
	for i, object := range []map[string]interface{}{req.Live, req.Applied, req.Changed} {
		// Validated once here, so that the figures exclude it.
		typed, err := kind.FromUnstructured(object)
		if err != nil {
			return response{}, err
		}
		objects[i] = typed
	}
	live, applied, changed := objects[0], objects[1], objects[2]
	fields, err := applied.ToFieldSet()
	if err != nil {
		return response{}, err
	}
	updater := (&merge.UpdaterBuilder{Converter: converter{}, ReturnInputOnNoop: true}).BuildUpdater()

	var failed error
	check := func(err error) {
		if err != nil {
			failed = err
		}
	}
	resp := response{
		Merge: best(func() {
			_, err := live.Merge(applied)
			check(err)
		}),
		Compare: best(func() {
			_, err := live.Compare(changed)
			check(err)
		}),
		Apply: best(func() {
			managers := fieldpath.ManagedFields{
				manager: fieldpath.NewVersionedSet(fields, version, true),
			}
			_, _, err := updater.Apply(live, applied, version, managers, manager, false)
			check(err)
		}),
	}
	return resp, failed
}

// best returns the time per call in the fastest round. A round repeats the call for about a
// millisecond, so that it includes garbage collection.
func best(call func()) int64 {
	runtime.GC()
	calls := 1
	for {
		start := time.Now()
		for i := 0; i < calls; i++ {
			call()
		}
		if time.Since(start) > time.Millisecond {
			break
		}
		calls *= 2
	}
	fastest := time.Duration(1 << 62)
	for begin := time.Now(); time.Since(begin) < repeatFor; {
		start := time.Now()
		for i := 0; i < calls; i++ {
			call()
		}
		fastest = min(fastest, time.Since(start))
	}
	return int64(fastest) / int64(calls)
}
