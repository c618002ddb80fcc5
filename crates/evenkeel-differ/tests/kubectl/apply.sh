#!/bin/sh
# Applies, patches, edits and prunes with kubectl. kubectl.rs runs it against two servers, in an empty
# directory each, and compares the output.
#
# KUBECTL is the executable, KUBECONFIG selects the server.

k() {
    echo "\$ kubectl $*"
    "$KUBECTL" "$@" 2>&1
    echo "exit $?"
}
kn() { k -n "$NS" "$@"; }
# An object with its managed fields; compared as JSON.
show() {
    echo "#object $*"
    "$KUBECTL" -n "$NS" get "$@" -o json --show-managed-fields 2>&1
    echo "#end"
}

echo "== client-side apply, patches, edits and the rest"
NS=first
k create ns $NS
cat > d.yaml <<Y
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: c
        image: nginx:1
        ports: [{containerPort: 80}]
        env: [{name: A, value: "1"}, {name: B, value: "2"}]
Y
cat > cm.yaml <<Y
apiVersion: v1
kind: ConfigMap
metadata: {name: cm}
data: {a: "1", b: "2"}
Y
cat > svc.yaml <<Y
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {selector: {app: web}, ports: [{port: 80, name: http}]}
Y
kn apply -f d.yaml -f cm.yaml -f svc.yaml
kn apply -f d.yaml -f cm.yaml -f svc.yaml
show deploy d; show cm cm
sed 's/nginx:1/nginx:2/; s/{name: B, value: "2"}/{name: C, value: "3"}/' d.yaml > d2.yaml
kn diff -f d2.yaml
kn apply -f d2.yaml
show deploy d
kn apply -f d2.yaml --dry-run=server
kn apply -f d2.yaml --dry-run=client
kn apply view-last-applied deploy/d
kn apply view-last-applied cm cm -o json
kn apply set-last-applied -f d.yaml
kn apply set-last-applied -f d.yaml
kn apply set-last-applied -f cm.yaml --create-annotation=true
show deploy d
cat > ed.sh <<'S'
#!/bin/sh
sed -i 's/nginx:2/nginx:3/; s/nginx:1/nginx:9/' "$1"
S
chmod +x ed.sh
echo '$ edit'; EDITOR=$PWD/ed.sh kn edit deploy d
echo '$ edit status nochange'; EDITOR=/bin/true kn edit deploy d
echo '$ edit-last-applied'; EDITOR=$PWD/ed.sh kn apply edit-last-applied deploy/d
show deploy d
echo "== patch"
kn patch deploy d --type=json -p '[{"op":"replace","path":"/spec/replicas","value":4},{"op":"test","path":"/spec/replicas","value":4}]'
kn patch deploy d --type=json -p '[{"op":"test","path":"/spec/replicas","value":5}]'
kn patch deploy d --type=json -p '[{"op":"remove","path":"/spec/nope"}]'
kn patch deploy d --type=merge -p '{"metadata":{"labels":{"m":"1"}},"spec":{"replicas":5}}'
kn patch deploy d --type=strategic -p '{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"A","$patch":"delete"},{"name":"Z","value":"z"}]}]}}}}'
kn patch deploy d -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"x"}]}}}}'
kn patch deploy d -p '{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"side"},{"name":"c"}],"containers":[{"name":"side","image":"y"}]}}}}'
kn patch deploy d -p '{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}'
kn patch deploy d --type=merge -p '{"spec":{"strategy":{"type":"RollingUpdate"}}}' -o yaml
kn patch deploy d --subresource=status --type=merge -p '{"status":{"replicas":3}}'
kn patch deploy d --subresource=scale --type=merge -p '{"spec":{"replicas":6}}' -o json
kn patch cm cm --type=json -p '[{"op":"copy","from":"/data/a","path":"/data/z"},{"op":"move","from":"/data/b","path":"/data/y"}]' -o yaml
kn patch -f cm.yaml --local --type=merge -p '{"data":{"q":"r"}}' -o yaml
kn patch deploy d --type=bogus -p '{}'
kn patch deploy d -p 'not json'
kn patch deploy nope -p '{}'
show deploy d
echo "== scale set label annotate"
kn scale deploy d --replicas=7
kn scale deploy d --replicas=8 --current-replicas=3
kn scale --replicas=1 -f d.yaml
kn scale deploy d --replicas=3 --dry-run=server
kn set image deploy/d c=nginx:20 side=z
kn set image deploy/d nope=x
kn set env deploy/d FOO=bar -c c
kn set resources deploy d -c=c --limits=cpu=200m,memory=512Mi
kn set selector svc s a=b
kn set serviceaccount deploy d sa1
kn label deploy d x=y
kn label deploy d x=z
kn label deploy d x=z --overwrite
kn label deploy d x-
kn annotate deploy d note=hi
kn annotate deploy d note=ho --overwrite
kn annotate cm --all k=v
kn label cm,svc --all tier=t
kn rollout restart deploy d
kn rollout pause deploy d
kn rollout resume deploy d
kn autoscale deploy d --min=1 --max=3
kn expose deploy d --port=80 --name=exp
kn create deployment made --image=x --dry-run=server -o yaml
kn create cm made --from-literal=a=b
kn replace -f cm.yaml
kn create -f cm.yaml
kn create -f d.yaml --edit=false --save-config --dry-run=server -o yaml
show deploy d; show cm cm; show svc s

NS=second
mkdir second && cd second || exit 1
k create ns $NS
cat > d.yaml <<Y
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: c
        image: nginx:1
        ports: [{containerPort: 80}]
        env: [{name: A, value: "1"}, {name: B, value: "2"}]
Y
cat > cm.yaml <<Y
apiVersion: v1
kind: ConfigMap
metadata: {name: cm}
data: {a: "1", b: "2"}
Y
echo "== server-side"
kn apply --server-side -f d.yaml -f cm.yaml
kn apply --server-side -f d.yaml -f cm.yaml
show deploy d; show cm cm
sed 's/nginx:1/nginx:2/' d.yaml > d2.yaml
kn diff --server-side -f d2.yaml
kn diff --server-side --field-manager=other -f d2.yaml
kn apply --server-side --field-manager=other -f d2.yaml
kn apply --server-side --field-manager=other --force-conflicts -f d2.yaml
kn apply --server-side -f d.yaml
kn apply --server-side -f d.yaml --force-conflicts
show deploy d
kn scale deploy d --replicas=9
kn apply --server-side -f d.yaml
kn apply --server-side -f d.yaml --force-conflicts
show deploy d
cat > bad.yaml <<Y
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec: {replicas: "two", template: {bogus: 1}}
Y
kn apply --server-side -f bad.yaml
kn apply --server-side -f bad.yaml --validate=false
kn apply -f bad.yaml
kn apply -f bad.yaml --validate=false
kn apply -f bad.yaml --validate=warn
cat > dup.yaml <<Y
apiVersion: v1
kind: Service
metadata: {name: dup}
spec: {ports: [{port: 80, name: a}, {port: 80, name: b}]}
Y
kn apply --server-side -f dup.yaml
kn apply -f dup.yaml
cat > mf.yaml <<Y
apiVersion: v1
kind: ConfigMap
metadata: {name: mf, managedFields: [{manager: x}]}
Y
kn apply --server-side -f mf.yaml
kn apply -f mf.yaml
cat > gen.yaml <<Y
apiVersion: v1
kind: ConfigMap
metadata: {generateName: gen-}
Y
kn apply --server-side -f gen.yaml
kn apply -f gen.yaml
cat > unk.yaml <<Y
apiVersion: v1
kind: ConfigMap
metadata: {name: unk}
data: {a: "1"}
nope: 1
Y
kn apply --server-side -f unk.yaml
kn apply --server-side -f unk.yaml --validate=warn
kn apply --server-side -f unk.yaml --validate=ignore
echo "== migration csa -> ssa"
cat > m.yaml <<Y
apiVersion: v1
kind: ConfigMap
metadata: {name: m, labels: {l: "1"}}
data: {a: "1", b: "2"}
Y
kn apply -f m.yaml
show cm m
sed 's/, b: "2"//' m.yaml > m2.yaml
kn apply --server-side -f m2.yaml
show cm m
kn apply --server-side -f m2.yaml
kn apply -f m.yaml
show cm m
kn apply --server-side -f m2.yaml
show cm m
kn annotate cm m extra=1
kn label cm m l=2 --overwrite
kn apply --server-side -f m2.yaml
kn apply --server-side -f m2.yaml --force-conflicts
show cm m
echo "custom manager csa -> ssa"
kn create cm m3 --from-literal=a=1 --save-config --field-manager=tool
kn apply --server-side -f - <<Y
apiVersion: v1
kind: ConfigMap
metadata: {name: m3}
data: {a: "2"}
Y
show cm m3
kn apply --server-side --field-manager=kubectl -f - <<Y
apiVersion: v1
kind: ConfigMap
metadata: {name: m3}
data: {a: "2"}
Y
show cm m3
echo "subresource"
kn apply --server-side --subresource=status -f - <<Y
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
status: {replicas: 2}
Y
show deploy d
echo "== prune by label"
mkdir p; cat > p/a.yaml <<Y
apiVersion: v1
kind: ConfigMap
metadata: {name: pa, labels: {set: p}}
Y
cat > p/b.yaml <<Y
apiVersion: v1
kind: Secret
metadata: {name: pb, labels: {set: p}}
Y
kn apply -f p --prune -l set=p
rm p/b.yaml
kn apply -f p --prune -l set=p --dry-run=server
kn apply -f p --prune -l set=p --prune-allowlist=core/v1/Secret --prune-allowlist=core/v1/ConfigMap
kn get cm,secret
export KUBECTL_APPLYSET=true
echo "== applyset"
mkdir q; cat > q/a.yaml <<Y
apiVersion: v1
kind: ConfigMap
metadata: {name: qa}
Y
cat > q/b.yaml <<Y
apiVersion: v1
kind: Service
metadata: {name: qb}
spec: {ports: [{port: 1}]}
Y
kn apply -f q --prune --applyset=set1
show secret set1; show cm qa; show svc qb
rm q/b.yaml
kn apply -f q --prune --applyset=set1 --dry-run=server
kn apply -f q --prune --applyset=set1
show secret set1; show svc qb
kn apply -f q --prune --applyset=set2
kn apply -f q --prune --applyset=configmaps/setcm --server-side
show cm setcm
kn apply -f q --prune --applyset=configmaps/setcm2 --server-side --force-conflicts
kn apply -f q --prune --applyset=nosuch/x
cat > crd.yaml <<Y
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sets.applyset.test, labels: {applyset.kubernetes.io/is-parent-type: "true"}}
spec:
  group: applyset.test
  scope: Cluster
  names: {kind: Set, plural: sets, singular: set}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
Y
k apply -f crd.yaml
k wait --for=condition=Established crd/sets.applyset.test --timeout=20s
cat > set.yaml <<Y
apiVersion: applyset.test/v1
kind: Set
metadata: {name: parent}
Y
k apply -f set.yaml
mkdir r; cat > r/a.yaml <<Y
apiVersion: v1
kind: ConfigMap
metadata: {name: ra, namespace: $NS}
Y
cat > r/b.yaml <<Y
apiVersion: v1
kind: Namespace
metadata: {name: third}
Y
cat > r/c.yaml <<Y
apiVersion: v1
kind: ConfigMap
metadata: {name: rc, namespace: default}
Y
k apply -f r --prune --applyset=sets.applyset.test/parent
show sets.applyset.test parent; show cm ra
rm r/c.yaml
k apply -f r --prune --applyset=sets.applyset.test/parent --server-side
k apply -f r --prune --applyset=sets.applyset.test/parent --server-side --force-conflicts
show sets.applyset.test parent; show cm ra
k get cm rc -n default
rm r/a.yaml
k apply -f r --prune --applyset=sets.applyset.test/parent
k get cm ra -n $NS
show sets.applyset.test parent
k apply --server-side -f set.yaml --dry-run=server
kn patch sets.applyset.test parent -p '{"spec":{"a":1}}'
k patch sets.applyset.test parent --type=strategic -p '{"spec":{"a":1}}'
k patch sets.applyset.test parent --type=merge -p '{"spec":{"a":1}}'
cat > set2.yaml <<Y
apiVersion: applyset.test/v1
kind: Set
metadata: {name: parent}
spec: {list: [1,2], map: {a: 1, b: {c: d}}}
Y
k diff -f set2.yaml
k apply -f set2.yaml
k diff --server-side -f set2.yaml
k apply --server-side -f set2.yaml
show sets.applyset.test parent
k delete -f set.yaml
k delete -f crd.yaml
k delete ns third --wait=false
k apply --server-side -k nowhere
echo "== lists of kind List"
NS=lists
k create ns $NS
cat > list.yaml <<Y
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: l1}
  data: {a: "<&>"}
- apiVersion: v1
  kind: Service
  metadata: {name: l2}
  spec: {ports: [{port: 443, name: a}, {port: 80, name: b}]}
Y
kn apply -f list.yaml
kn apply -f list.yaml
kn create -f list.yaml
kn apply -f list.yaml --dry-run=server
sed 's/port: 443/port: four/' list.yaml > badlist.yaml
kn apply -f badlist.yaml
cat > typed.yaml <<Y
apiVersion: v1
kind: ConfigMapList
items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: l3}}]
Y
kn apply -f typed.yaml
cat > nope.yaml <<Y
apiVersion: nope.example.com/v1
kind: Nope
metadata: {name: a}
Y
kn apply -f nope.yaml
kn create -f nope.yaml
show cm l1; show svc l2
echo "#text"; kn get --raw "/api/v1/namespaces/$NS/configmaps/l1"
echo "== done"
