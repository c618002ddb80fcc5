// Command rules writes the answers of Kubernetes into a file of CRD schemas with validation rules: the
// errors of the CRD, and the errors and warnings of objects that are created and updated.
//
// The schemas and objects are in the file itself, so that a case is added by adding its lines and running
//
//	cd xtask/gofacts && go run ./rules ../../crates/evenkeel-schema/tests/it/rules.txt
//
// Lines start with "schema", "create" and "update", followed by JSON: the schema of the field spec, a
// spec, and an old and a new spec. Answers are "! error" and "w warning", sorted; the numbers in the
// names of types are replaced by 1.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/warning"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

var selfType = regexp.MustCompile(`selfType\d+`)

type current struct {
	structural *schema.Structural
	validator  *cel.Validator
}

// check returns the errors of a CRD whose field spec has the given schema.
func (c *current) check(text string) []string {
	var spec apiextensionsv1.JSONSchemaProps
	must(json.Unmarshal([]byte(text), &spec))
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com",
			Scope: "Cluster",
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type:       "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
				}},
			}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: []string{"v1"}},
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	var internal apiextensions.CustomResourceDefinition
	must(apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, &internal, nil))
	errs := crdvalidation.ValidateCustomResourceDefinition(context.Background(), &internal)
	var lines []string
	for _, err := range errs {
		lines = append(lines, "! "+err.Error())
	}
	var root apiextensions.JSONSchemaProps
	must(apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &root, nil))
	structural, err := schema.NewStructural(&root)
	must(err)
	c.structural = structural
	c.validator = cel.NewValidator(structural, true, celconfig.PerCallLimit)
	return lines
}

type recorder struct{ lines []string }

func (r *recorder) AddWarning(_, text string) { r.lines = append(r.lines, "w "+text) }

// object wraps a spec.
func object(text []byte) map[string]any {
	var spec any
	must(utiljson.Unmarshal(text, &spec))
	return map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}, "spec": spec,
	}
}

func (c *current) validate(old, new map[string]any) []string {
	recorder := &recorder{}
	ctx := warning.WithWarningRecorder(context.Background(), recorder)
	var options []cel.Option
	var oldObject any
	if old != nil {
		oldObject = old
		correlated := common.NewCorrelatedObject(new, old, &model.Structural{Structural: c.structural})
		options = append(options, cel.WithRatcheting(correlated))
	}
	errs, _ := c.validator.Validate(ctx, nil, c.structural, new, oldObject, celconfig.RuntimeCELCostBudget, options...)
	lines := recorder.lines
	for _, err := range errs {
		lines = append(lines, "! "+err.Error())
	}
	return lines
}

func main() {
	path := os.Args[1]
	text, err := os.ReadFile(path)
	must(err)
	var out strings.Builder
	c := &current{}
	answer := func(line string, answers []string) {
		fmt.Fprintln(&out, line)
		for at, text := range answers {
			text = selfType.ReplaceAllString(text, "selfType1")
			answers[at] = strings.ReplaceAll(text, "\n", "\\n")
		}
		sort.Strings(answers)
		for _, answer := range answers {
			fmt.Fprintln(&out, answer)
		}
	}
	for _, line := range strings.Split(strings.TrimRight(string(text), "\n"), "\n") {
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "", "#":
			fmt.Fprintln(&out, line)
		case "schema":
			answer(line, c.check(rest))
		case "create":
			answer(line, c.validate(nil, object([]byte(rest))))
		case "update":
			decoder := json.NewDecoder(bytes.NewReader([]byte(rest)))
			var old, new json.RawMessage
			must(decoder.Decode(&old))
			must(decoder.Decode(&new))
			answer(line, c.validate(object(old), object(new)))
		case "!", "w":
		default:
			panic(line)
		}
	}
	must(os.WriteFile(path, []byte(out.String()), 0o644))
}
