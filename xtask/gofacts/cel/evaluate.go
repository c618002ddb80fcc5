package main

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

var repeats = regexp.MustCompile(`\{\{(\d+)\*(.*?)\}\}`)

// expand replaces {{3*abc}} with abcabcabc.
func expand(source string) string {
	return repeats.ReplaceAllStringFunc(source, func(match string) string {
		parts := repeats.FindStringSubmatch(match)
		count, _ := strconv.Atoi(parts[1])
		return strings.Repeat(parts[2], count)
	})
}

// block prefixes each line of a text; long lines are cut.
func block(prefix, text string) string {
	var out strings.Builder
	for _, line := range strings.Split(text, "\n") {
		if runes := []rune(line); len(runes) > 400 {
			line = string(runes[:400]) + "…" + strconv.Itoa(len(runes))
		}
		fmt.Fprintf(&out, "%s %s\n", prefix, line)
	}
	return out.String()
}

// answer compiles and evaluates an expression.
func (v *variables) answer(source string, seen coverage) string {
	env := v.environment()
	checked, issues := env.Compile(source)
	if issues != nil {
		return block("!", issues.String())
	}
	v.record(source, checked, seen)
	estimator := &library.CostEstimator{SizeEstimator: &sizes{v}}
	estimate, err := env.EstimateCost(checked, estimator)
	if err != nil {
		panic(err)
	}
	typed := fmt.Sprintf("%s %s..%s", checked.OutputType(), cost(estimate.Min), cost(estimate.Max))
	program, err := env.Program(checked,
		cel.CostLimit(celconfig.PerCallLimit),
		cel.CostTracking(estimator),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency),
	)
	if err != nil {
		return block(":", typed) + block("%", err.Error())
	}
	value, details, err := program.ContextEval(context.Background(), v.values)
	if details != nil && details.ActualCost() != nil {
		typed += " " + cost(*details.ActualCost())
	}
	if err != nil {
		return block(":", typed) + block("?", err.Error())
	}
	return block(":", typed) + block("=", render(value))
}

func cost(units uint64) string {
	if units == math.MaxUint64 {
		return "max"
	}
	return strconv.FormatUint(units, 10)
}

// record notes the overloads and macros of an expression.
func (v *variables) record(source string, checked *cel.Ast, seen coverage) {
	for _, reference := range checked.NativeRep().ReferenceMap() {
		for _, overload := range reference.OverloadIDs {
			seen[overload] = true
		}
	}
	tracked, _ := v.tracking.Parse(source)
	for _, call := range tracked.NativeRep().SourceInfo().MacroCalls() {
		member := call.AsCall().IsMemberFunction()
		name, arguments := call.AsCall().FunctionName(), len(call.AsCall().Args())
		seen[fmt.Sprintf("%s:%d:%t", name, arguments, member)] = true
	}
}

// sizes estimates the sizes of variables from their declared limits.
type sizes struct{ *variables }

func (s *sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	path := element.Path()
	if len(path) == 0 {
		return nil
	}
	current := s.declared[path[0]]
	for _, name := range path[1:] {
		if current == nil {
			return nil
		}
		current = current.step(name)
	}
	if current == nil || current.max < 0 {
		return nil
	}
	return &checker.SizeEstimate{Min: 0, Max: uint64(current.max)}
}

func (s *sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

