// The rival of `evenkeel-bench cel`: the cel-go that kube-apiserver 1.36 uses.
//
// Reads a line of JSON from stdin with rules, an object and a hostile rule. Prints the nanoseconds of
// compiling a rule, of evaluating all rules against the object, and of the hostile rule until its cost
// exceeds the limit, each in the fastest round.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

const (
	costLimit = 1_000_000
	// How long each measurement is repeated; the fastest round counts.
	repeatFor = 300 * time.Millisecond
)

type request struct {
	Rules   []string
	Hostile string
	Object  map[string]any
}

type response struct {
	Compile int64 `json:"compile"`
	Check   int64 `json:"check"`
	Hostile int64 `json:"hostile"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	env, err := cel.NewEnv(
		cel.Variable("self", cel.DynType),
		cel.OptionalTypes(),
		ext.Strings(ext.StringsVersion(2)),
		ext.TwoVarComprehensions(),
		cel.EagerlyValidateDeclarations(true),
	)
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
		resp, err := measure(env, req)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(resp); err != nil {
			return err
		}
	}
	return in.Err()
}

func measure(env *cel.Env, req request) (response, error) {
	var failed error
	check := func(err error) {
		if err != nil {
			failed = err
		}
	}
	compile := func(rule string) cel.Program {
		ast, issues := env.Compile(rule)
		if issues != nil {
			check(issues.Err())
		}
		program, err := env.Program(ast,
			cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostLimit(costLimit))
		check(err)
		return program
	}
	programs := make([]cel.Program, len(req.Rules))
	for i, rule := range req.Rules {
		programs[i] = compile(rule)
	}
	hostile := compile(req.Hostile)
	if failed != nil {
		return response{}, failed
	}
	// Numbers of JSON are doubles here; Kubernetes decodes integers as such.
	input := map[string]any{"self": integers(req.Object)}
	resp := response{
		Compile: best(func() {
			for _, rule := range req.Rules {
				compile(rule)
			}
		}) / int64(len(req.Rules)),
		Check: best(func() {
			for _, program := range programs {
				out, _, err := program.Eval(input)
				check(err)
				if out != nil && out.Value() != true {
					check(fmt.Errorf("a rule is not satisfied"))
				}
			}
		}),
		Hostile: best(func() {
			if _, _, err := hostile.Eval(input); err == nil {
				check(fmt.Errorf("the hostile rule ended"))
			}
		}),
	}
	return resp, failed
}

func integers(value any) any {
	switch v := value.(type) {
	case float64:
		return int64(v)
	case map[string]any:
		for key, inner := range v {
			v[key] = integers(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = integers(inner)
		}
	}
	return value
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
