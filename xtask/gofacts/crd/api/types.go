// Package api has a resource with every family of controller-gen's markers. The same resource in Rust
// is in crates/evenkeel-test/tests/attributes.rs.
//
// +groupName=example.com
// +versionName=v1
package api

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// +kubebuilder:validation:Enum=Debug;Info;Error
type Level string

// +kubebuilder:validation:XValidation:rule="self.low <= self.high",message="low must not exceed high",reason=FieldValueInvalid,fieldPath=".low"
type Window struct {
	Low  int32 `json:"low"`
	High int32 `json:"high"`
}

type Port struct {
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Number int32 `json:"number"`
	// +kubebuilder:default=TCP
	// +optional
	Protocol string `json:"protocol,omitempty"`
}

type Limits struct {
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
}

// +kubebuilder:validation:ExactlyOneOf=file;url
type Source struct {
	// +optional
	File *string `json:"file,omitempty"`
	// +optional
	URL *string `json:"url,omitempty"`
}

type EverythingSpec struct {
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	// +kubebuilder:default=3
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:ExclusiveMinimum=true
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:validation:ExclusiveMaximum=true
	// +kubebuilder:validation:MultipleOf=5
	Percent int64 `json:"percent"`

	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z][a-z0-9-]*$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the name cannot be changed"
	Name string `json:"name"`
	// +kubebuilder:validation:Format=email
	Owner string `json:"owner"`
	// +kubebuilder:validation:Format=uri
	// +optional
	Homepage string `json:"homepage,omitempty"`
	// +kubebuilder:validation:Format=ipv4
	// +optional
	Address string `json:"address,omitempty"`
	// +kubebuilder:validation:Format=uuid
	// +optional
	Token string `json:"token,omitempty"`
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`

	// +kubebuilder:default=Info
	// +optional
	Level Level `json:"level,omitempty"`
	// +nullable
	// +optional
	Comment *string `json:"comment,omitempty"`
	// +kubebuilder:default=true
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:Pattern=`^[a-z]+$`
	// +listType=set
	Zones []string `json:"zones"`
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Ports []Port `json:"ports,omitempty"`
	// +listType=atomic
	// +kubebuilder:default={"run"}
	// +optional
	Command []string `json:"command,omitempty"`
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +mapType=atomic
	// +optional
	Settings map[string]string `json:"settings,omitempty"`
	// +structType=atomic
	// +kubebuilder:default={cpu:"1",memory:"1Gi"}
	// +optional
	Limits Limits `json:"limits,omitempty"`

	Window Window `json:"window"`
	Source Source `json:"source"`

	// +kubebuilder:validation:XIntOrString
	// +optional
	Surge intstr.IntOrString `json:"surge,omitempty"`
	// +optional
	Storage resource.Quantity `json:"storage,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +optional
	Extra runtime.RawExtension `json:"extra,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:EmbeddedResource
	// +optional
	Template runtime.RawExtension `json:"template,omitempty"`
	// +kubebuilder:title="Old name"
	// +kubebuilder:example="web"
	// +optional
	Alias string `json:"alias,omitempty"`
}

type EverythingStatus struct {
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// +optional
	Selector string `json:"selector,omitempty"`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=everythings,singular=everything,shortName=ev;evs,categories=all;examples,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Level",type=string,JSONPath=`.spec.level`
// +kubebuilder:printcolumn:name="Replicas",type=integer,format=int32,description="The number of replicas",priority=1,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:selectablefield:JSONPath=`.spec.owner`
// +kubebuilder:storageversion
// +kubebuilder:deprecatedversion:warning="example.com/v1 Everything is deprecated; use v2"
// +kubebuilder:metadata:labels="team=examples",annotations="example.com/docs=everything"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40",messageExpression="self.spec.name + ' has a long name'"
// +kubebuilder:validation:XValidation:rule="!oldSelf.hasValue() || self.spec.window.low >= oldSelf.value().spec.window.low",optionalOldSelf=true
type Everything struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec EverythingSpec `json:"spec"`
	// +optional
	Status EverythingStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true
type EverythingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Everything `json:"items"`
}
