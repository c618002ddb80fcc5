// Command crd prints the facts of a CustomResourceDefinition that controller-gen generates: a line per
// scalar or list of scalars, with its path. Descriptions, which are prose, and the annotation with
// controller-gen's version are left out.
//
// Its output is committed, so that Go is needed only when the types in ./crd/api change:
//
//	cd xtask/gofacts
//	go install sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0
//	controller-gen crd paths=./crd/api output:crd:stdout | go run ./crd > ../../crates/evenkeel-test/tests/attributes.txt
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"

	"sigs.k8s.io/yaml"
)

// schema is the path of the schema. It is printed as "schema", and the names of fields after a slash.
const schema = "spec.versions[0].schema.openAPIV3Schema"

func scalars(list []any) bool {
	for _, item := range list {
		switch item.(type) {
		case map[string]any, []any:
			return false
		}
	}
	return true
}

// walk appends the facts of a value. Keys of the properties of a schema are names of fields, not
// keywords.
func walk(path string, value any, names bool, facts *[]string) {
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 {
			*facts = append(*facts, path+" = {}")
		}
		for key, item := range value {
			if !names && key == "description" && strings.HasPrefix(path, schema) {
				continue
			}
			walk(path+"."+key, item, !names && key == "properties", facts)
		}
	case []any:
		if !scalars(value) {
			for i, item := range value {
				walk(fmt.Sprintf("%s[%d]", path, i), item, false, facts)
			}
			return
		}
		*facts = append(*facts, path+" = "+text(value))
	default:
		*facts = append(*facts, path+" = "+text(value))
	}
}

func text(value any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return strings.TrimSpace(text.String())
}

func main() {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	var crd struct {
		Metadata map[string]any `json:"metadata"`
		Spec     map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(input, &crd); err != nil {
		panic(err)
	}
	delete(crd.Metadata["annotations"].(map[string]any), "controller-gen.kubebuilder.io/version")
	var facts []string
	walk("metadata", crd.Metadata, false, &facts)
	walk("spec", crd.Spec, false, &facts)
	shorten := strings.NewReplacer(schema, "schema", ".properties.", "/")
	for i, fact := range facts {
		facts[i] = shorten.Replace(fact)
	}
	sort.Strings(facts)
	for _, fact := range facts {
		fmt.Println(fact)
	}
}
