// Command cel writes the answers of cel-go and of Kubernetes' CEL libraries into a corpus of
// expressions: the type, the estimated and the actual cost, and the value or the error of each.
//
// The expressions are in the corpus itself, so that a case is added by adding its expression and
// running this program, which is needed only for that and when a library changes:
//
//	cd xtask/gofacts && go run ./cel ../../crates/evenkeel-cel/tests/corpus/*.txt
//
// The format is described in crates/evenkeel-cel/tests/corpus/README.md. Every overload and macro of
// the environment must occur in the corpus; the program lists those that do not and fails.
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"
)

// The environment of 1.36, with the additions of mutating admission policies.
func environmentOfKubernetes() *cel.Env {
	env, err := environment.MustBaseEnvSet(version.MajorMinor(1, 36)).StoredExpressionsEnv().Extend(
		library.JSONPatch(),
		common.ResolverEnvOption(&mutation.DynamicTypeResolver{}),
	)
	if err != nil {
		panic(err)
	}
	return env
}

func main() {
	base := environmentOfKubernetes()
	tracking, err := base.Extend(cel.EnableMacroCallTracking())
	if err != nil {
		panic(err)
	}
	seen := coverage{}
	count := 0
	for _, path := range os.Args[1:] {
		text, err := os.ReadFile(path)
		if err != nil {
			panic(err)
		}
		answered, cases := annotate(base, tracking, string(text), seen)
		count += cases
		if err := os.WriteFile(path, []byte(answered), 0o644); err != nil {
			panic(err)
		}
	}
	fmt.Fprintf(os.Stderr, "%d cases\n", count)
	if missing := seen.missing(base); len(missing) > 0 {
		fmt.Fprintf(os.Stderr, "not in the corpus:\n  %s\n", strings.Join(missing, "\n  "))
		os.Exit(1)
	}
}

// annotate replaces the answers in a corpus file.
func annotate(base, tracking *cel.Env, text string, seen coverage) (string, int) {
	var out strings.Builder
	vars := newVariables(base, tracking)
	cases := 0
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for at := 0; at < len(lines); at++ {
		line := lines[at]
		switch {
		case line == "" || strings.HasPrefix(line, "# "):
			fmt.Fprintln(&out, line)
		case strings.HasPrefix(line, "## "):
			vars = newVariables(base, tracking)
			fmt.Fprintln(&out, line)
		case strings.HasPrefix(line, "var "):
			vars.declare(strings.TrimPrefix(line, "var "))
			fmt.Fprintln(&out, line)
		case strings.HasPrefix(line, "> "):
			source := strings.TrimPrefix(line, "> ")
			fmt.Fprintln(&out, line)
			for at+1 < len(lines) && strings.HasPrefix(lines[at+1], "| ") {
				at++
				source += "\n" + strings.TrimPrefix(lines[at], "| ")
				fmt.Fprintln(&out, lines[at])
			}
			cases++
			fmt.Fprint(&out, vars.answer(expand(source), seen))
		case strings.HasPrefix(line, ": "), strings.HasPrefix(line, "= "), strings.HasPrefix(line, "! "),
			strings.HasPrefix(line, "? "), strings.HasPrefix(line, "% "):
			// An answer of an earlier run.
		default:
			panic("unknown line: " + line)
		}
	}
	return out.String(), cases
}

// coverage holds the overloads and macros that the corpus uses.
type coverage map[string]bool

func (c coverage) missing(env *cel.Env) []string {
	var missing []string
	for name, function := range env.Functions() {
		for _, overload := range function.OverloadDecls() {
			if !c[overload.ID()] && !unreachable[overload.ID()] {
				missing = append(missing, name+" "+overload.ID())
			}
		}
	}
	for _, macro := range env.Macros() {
		if key := macro.MacroKey(); !c[key] {
			missing = append(missing, "macro "+key)
		}
	}
	sort.Strings(missing)
	return missing
}

// Overloads that no expression can select, because the parser never produces their function.
var unreachable = map[string]bool{
	"__not_strictly_false__": true, "not_strictly_false": true,
}
