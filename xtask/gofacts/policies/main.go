// Command policies writes the answers of Kubernetes into a file of validating admission policies: the
// warnings of type checking about expressions.
//
// The policies are in the file itself, so that a case is added by adding its lines and running
//
//	cd xtask/gofacts && go run ./policies ../../crates/evenkeel-cluster/src/policy_status/warnings.txt
//
// Lines start with "policy", followed by a spec without validations, and "check", followed by an
// expression, both as JSON. Answers are "! warning"; the numbers in the names of types are replaced by N.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"

	admission "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// resources are those that the policies of the file match, as discovery lists them.
var resources = [][4]string{
	{"", "v1", "ConfigMap", "configmap"},
	{"", "v1", "Event", "event"},
	{"", "v1", "Pod", "pod"},
	{"", "v1", "ResourceQuota", "resourcequota"},
	{"", "v1", "Secret", "secret"},
	{"apps", "v1", "Deployment", "deployment"},
	{"apps", "v1", "ReplicaSet", "replicaset"},
	{"events.k8s.io", "v1", "Event", "event"},
}

var typeName = regexp.MustCompile(`\b(ConfigMap|Event|Pod|ResourceQuota|Secret|Deployment|ReplicaSet)\d+`)

func main() {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, it := range resources {
		gv := schema.GroupVersion{Group: it[0], Version: it[1]}
		plural, singular := gv.WithResource(it[3]+"s"), gv.WithResource(it[3])
		mapper.AddSpecific(gv.WithKind(it[2]), plural, singular, meta.RESTScopeNamespace)
	}
	checker := &validating.TypeChecker{
		SchemaResolver: resolver.NewDefinitionsSchemaResolver(openapi.GetOpenAPIDefinitions, scheme.Scheme),
		RestMapper:     mapper,
	}
	path := os.Args[1]
	text, err := os.ReadFile(path)
	must(err)
	var out strings.Builder
	var context *validating.TypeCheckingContext
	for _, line := range strings.Split(strings.TrimRight(string(text), "\n"), "\n") {
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "", "#":
			fmt.Fprintln(&out, line)
		case "policy":
			fmt.Fprintln(&out, line)
			var policy admission.ValidatingAdmissionPolicy
			must(json.Unmarshal([]byte(rest), &policy.Spec))
			context = checker.CreateContext(&policy)
		case "check":
			fmt.Fprintln(&out, line)
			var expression string
			must(json.Unmarshal([]byte(rest), &expression))
			if results := checker.CheckExpression(context, expression); len(results) != 0 {
				text := typeName.ReplaceAllString(results.String(), "${1}N")
				fmt.Fprintln(&out, "! "+strings.ReplaceAll(text, "\n", "\\n"))
			}
		case "!":
		default:
			panic(line)
		}
	}
	must(os.WriteFile(path, []byte(out.String()), 0o644))
}
